"""The responses that a change of topics at the command line waits for."""

import json
import logging
import sys
from types import SimpleNamespace

import pytest
import typer

from jobs.cli.options import TopicPattern
from jobs.cli.output import OutputOptions
from jobs.cli.topics import changes as topic_changes
from jobs.cli.topics.changes import TopicChanges
from quota.kafka.admin import ThrottlingQuotaExceededError
from quota.kafka.admin.calls import TopicFuture, kafka_error
from quota.settings import load_settings
from tests.support.programs import run


def changes(monkeypatch, silent_seconds, *more, output=None):
    monkeypatch.setattr(topic_changes, "_SILENT_SECONDS", silent_seconds)
    monkeypatch.setattr(topic_changes.ClientOptions, "from_settings", lambda _settings: None)
    monkeypatch.setattr(topic_changes, "QuotaAdminClient", lambda _options: None)
    settings = load_settings(["kafka.bootstrap_servers=k:9092", *more], environment={}, with_default_file=False)
    return TopicChanges(settings, OutputOptions(output))


class Late(TopicFuture):
    """A future that is done when its result is requested."""

    def exception(self, timeout=None):
        self.set_result(None)
        return super().exception(timeout)


@pytest.mark.parametrize(
    ("more", "question"),
    [
        ([], "is mutation-quota enforce running on k:9092?"),
        (["kafka.target_servers=t:9092"], "is mutation-quota enforce running on k:9092, and does t:9092 answer?"),
        (
            ["kafka.target_servers=t:9092", "client.applied_by=applier"],
            "are mutation-quota enforce and mutation-quota applier running on k:9092?",
        ),
    ],
)
def test_a_slow_change_names_the_jobs_that_have_to_respond(more, question, monkeypatch, caplog, capsys):
    with caplog.at_level(logging.INFO):
        changes(monkeypatch, 0.01, *more).report("created", {"orders": Late()})
    assert caplog.messages == [f"waiting for topic orders: {question} Ctrl-C stops waiting"]
    assert capsys.readouterr().out == "Created topic orders.\n"


def test_a_change_decided_in_time_prints_nothing_else(monkeypatch, caplog, capsys):
    with caplog.at_level(logging.INFO):
        changes(monkeypatch, 60).report("created", {"orders": done()})
    assert caplog.messages == []
    assert capsys.readouterr().out == "Created topic orders.\n"


def rejected(topic, decision_id):
    future = TopicFuture()
    future.decision_id = decision_id
    decision = decision_id and SimpleNamespace(decision_id=decision_id, retry_at=1_728_043_228_572)
    future.set_exception(ThrottlingQuotaExceededError(topic, 27_862, decision))
    return future


def test_a_rejection_names_its_time_and_the_command_that_explains_it_on_its_own_line(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    with pytest.raises(typer.Exit) as exit_code:
        changes(monkeypatch, 60).report("created", {"orders": rejected("orders", "mutation-requests-0-2328")})
    assert exit_code.value.exit_code == 3
    assert capsys.readouterr().out == (
        "Topic orders rejected: the mutation\n"
        "  quota is exhausted; try again in\n"
        "  27.9 s, at 2024-10-04T12:00:28.572Z.\n"
        "Explained by:\n"
        "  mutation-quota explain mutation-requests-0-2328\n"
    )


def test_a_change_that_overdrew_the_quota_says_until_when_others_are_rejected(monkeypatch, capsys):
    """KIP-599 admits a request of any size while the bucket is not in debt."""
    monkeypatch.setattr(topic_changes, "now_ms", lambda: 1_728_043_228_572 - 4_985_812)
    created = done()
    created.throttled_until = 1_728_043_228_572
    changes(monkeypatch, 60).report("created", {"enormous": created})
    assert capsys.readouterr().out == (
        "Created topic enormous. This overdrew the mutation quota: try further changes in 1 h 24 min, at "
        "2024-10-04T12:00:28.572Z.\n"
    )


def test_a_decision_that_rejected_several_topics_is_named_once(monkeypatch, capsys):
    decisions = {"a": "requests-0-1", "b": "requests-0-1", "c": "requests-0-2"}
    with pytest.raises(typer.Exit):
        changes(monkeypatch, 60).report("created", {name: rejected(name, cause) for name, cause in decisions.items()})
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" rejected: ")[0] for line in lines[:3]] == ["Topic a", "Topic b", "Topic c"]
    assert lines[3:] == [
        "Explained by:",
        "  mutation-quota explain requests-0-1",
        "  mutation-quota explain requests-0-2",
    ]


def test_a_topic_that_no_decision_rejected_is_not_explained(monkeypatch, capsys):
    with pytest.raises(typer.Exit):
        changes(monkeypatch, 60).report("created", {"orders": rejected("orders", None)})
    assert capsys.readouterr().out.count("\n") == 1


def test_data_have_the_decision_of_each_topic_that_was_decided(monkeypatch, capsys):
    created, failed, undecided = futures = [TopicFuture(), TopicFuture(), TopicFuture()]
    for future, decision_id in zip(futures, ["requests-0-1", "requests-0-2", None], strict=True):
        future.decision_id = decision_id
    created.set_result(None)
    failed.set_exception(kafka_error(36, "Topic 'b' already exists."))
    undecided.set_exception(kafka_error(7, "no decision"))
    given = dict(zip("abc", futures, strict=True))
    with pytest.raises(typer.Exit):
        changes(monkeypatch, 60, output="json").report("created", given)
    topics = json.loads(capsys.readouterr().out)["topics"]
    assert [(topic["outcome"], topic["decision_id"]) for topic in topics] == [
        ("created", "requests-0-1"),
        ("failed", "requests-0-2"),
        ("failed", None),
    ]


class Admin:
    """A client of a cluster with these topics that makes every change."""

    def __init__(self, *names):
        self._names = names

    def list_topics(self, *, timeout):  # noqa: ARG002 as of a client
        return SimpleNamespace(topics={name: SimpleNamespace(partitions={0: None}) for name in self._names})

    def create_topics(self, new_topics, **_):
        return {topic.topic: done() for topic in new_topics}

    create_partitions = create_topics

    def close(self, *, wait):
        pass


def done():
    future = TopicFuture()
    future.set_result(None)
    return future


TOPICS = [
    "orders",
    "logs",
    "__consumer_offsets",
    "__of-ours",
    "mutation-quotas",
    "mutation-decisions",
    "mutation-requests.bob",
]
OURS = ["topics.identity=topic"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (".*", ["logs", "orders"]),
        ("__.*,mutation-.*", []),
        ("__consumer_offsets", ["__consumer_offsets"]),
        ("o.*, mutation-quotas", ["mutation-quotas", "orders"]),
        ("mutation-requests.bob", ["mutation-requests.bob"]),
    ],
)
def test_a_pattern_matches_internal_topics_and_those_of_the_program_only_by_name(
    pattern, expected, monkeypatch, caplog
):
    """Those of the program are warned of."""
    prepared = changes(monkeypatch, 60, *OURS)
    prepared.admin = Admin(*TOPICS)
    assert list(prepared.matching(TopicPattern.parse(pattern), allow_none=True)) == expected
    ours = [
        f"topic {name} belongs to mutation-quota, whose services fail without it" for name in expected if "mut" in name
    ]
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == ours


@pytest.mark.parametrize(
    ("command", "outcome", "line"),
    [
        (["create"], "created", "Created topic orders.\n"),
        (["create", "--validate-only"], "valid", "Topic orders is valid; nothing was changed.\n"),
        (["alter", "--partitions", "9"], "altered", "Altered topic orders.\n"),
        (["alter", "--partitions", "9", "--validate-only"], "valid", "Topic orders is valid; nothing was changed.\n"),
    ],
)
def test_a_topic_that_is_only_validated_is_valid_and_not_changed(command, outcome, line, monkeypatch):
    monkeypatch.setattr(topic_changes.ClientOptions, "from_settings", lambda _settings: None)
    monkeypatch.setattr(topic_changes, "QuotaAdminClient", lambda _options: Admin("orders"))
    arguments = ["topics", *command, "--topic", "orders", "--bootstrap-server", "k:9092"]
    assert run(*arguments).stdout == line
    (topic,) = json.loads(run(*arguments, "--output", "json").stdout)["topics"]
    assert (topic["topic"], topic["outcome"]) == ("orders", outcome)
