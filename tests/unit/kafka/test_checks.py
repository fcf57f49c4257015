"""Requirements of existing topics."""

import pytest

from quota.kafka.topics.checks import problems
from quota.kafka.topics.specs import max_answer_bytes, topic_specs
from quota.kafka.topics.topic_admin import DescribedTopic
from quota.settings import load_settings


@pytest.fixture
def settings():
    return load_settings([], environment={}, with_default_file=False)


def described(settings, name, partitions=None, **configs):
    """The topics as they are created, one of them with other partitions or configs."""
    topics = {}
    for spec in topic_specs(settings):
        own = {each.replace("_", "."): value for each, value in configs.items()} if spec.name == name else {}
        count = partitions if partitions is not None and spec.name == name else spec.partitions
        topics[spec.name] = DescribedTopic("id", count, {**spec.configs, **own})
    return topics


def test_topics_as_created_by_the_jobs_are_valid(settings, caplog):
    assert list(problems(described(settings, ""), settings)) == []
    assert caplog.text == ""


@pytest.mark.parametrize("part", ["requests", "quotas"])
def test_requests_and_quotas_must_be_stamped_by_the_broker(settings, part):
    name = getattr(settings.topics, part)
    topics = described(settings, name, message_timestamp_type="CreateTime")
    (problem,) = problems(topics, settings)
    assert problem.startswith(f"topic {name} is stamped by producers")


@pytest.mark.parametrize("part", ["decisions", "dead_letters", "results"])
def test_the_largest_decision_has_to_fit_its_topic(settings, part):
    name, needed = getattr(settings.topics, part), max_answer_bytes(settings)
    assert list(problems(described(settings, name, max_message_bytes=str(needed)), settings)) == []
    (problem,) = problems(described(settings, name, max_message_bytes=str(needed - 1)), settings)
    assert f"set max.message.bytes={needed} on the topic" in problem


def test_the_quota_topic_must_have_one_partition(settings):
    (problem,) = problems(described(settings, settings.topics.quotas, partitions=2), settings)
    assert "has 2 partitions, so its changes have no total order" in problem


@pytest.mark.parametrize(
    ("configs", "warning"),
    [
        ({"cleanup_policy": "delete"}, "is not compacted"),
        ({"min_compaction_lag_ms": "1000"}, "may be compacted after 1000 ms"),
    ],
)
def test_a_quota_topic_that_may_lose_quotas_causes_a_warning(settings, caplog, configs, warning):
    assert list(problems(described(settings, settings.topics.quotas, **configs), settings)) == []
    assert warning in caplog.text


def test_a_topic_of_a_user_is_checked_like_the_shared_one():
    by_user = load_settings(["topics.identity=topic"], environment={}, with_default_file=False)
    name = f"{by_user.topics.requests}.alice"
    own = DescribedTopic("id", 1, {"message.timestamp.type": "CreateTime"})
    (problem,) = problems({name: own}, by_user)
    assert problem.startswith(f"topic {name} is stamped by producers")
