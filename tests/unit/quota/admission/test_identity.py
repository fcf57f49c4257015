"""Users by the names of their topics."""

import re

import pytest

from quota.admission.identity import pattern_of, request_topic, user_of
from quota.admission.policy import Policy
from quota.admission.resolve import resolve
from quota.errors import BadInput
from quota.records.record import Record, Source
from quota.settings.sections import TopicSettings
from tests.support.factories import request_json, timeline

REQUESTS = "mutation-requests"
BY_TOPIC = TopicSettings(requests=REQUESTS, identity="topic")


@pytest.mark.parametrize("user", ["alice.eu", "a-b_c", "x" * (249 - len(REQUESTS) - 1)])
def test_a_users_topic_identifies_the_user(user):
    topic = request_topic(user, BY_TOPIC)
    assert topic == f"mutation-requests.{user}"
    assert user_of(topic, REQUESTS) == user
    assert re.fullmatch(pattern_of(REQUESTS), topic)


@pytest.mark.parametrize("user", ["", "CN=alice", "müller", "a\n", "x" * (249 - len(REQUESTS))])
def test_a_user_without_a_valid_topic_name_is_rejected(user):
    with pytest.raises(BadInput, match=r"cannot be part of a topic's name \(topics.identity=topic\)"):
        request_topic(user, BY_TOPIC)


@pytest.mark.parametrize(
    "topic",
    ["mutation-requests", "mutation-requests.", "mutation-requestsXalice", "x-mutation-requests.alice", "orders.alice"],
)
def test_other_topics_belong_to_no_user(topic):
    """The dot of the pattern matches only a dot, and the whole name has to match."""
    topics = ["mutation-requests.alice", topic]
    assert [user_of(name, REQUESTS) for name in topics] == ["alice", None]
    assert [bool(re.search(pattern_of(REQUESTS), name)) for name in topics] == [True, False]


def resolved(value, topic):
    resolved_request = resolve(Record(Source(topic, 0, 7), 99, value), timeline(), Policy(user_topic_prefix=REQUESTS))
    return getattr(resolved_request, "error", None) or resolved_request.request.user


@pytest.mark.parametrize("named", ["alice", "", "ANONYMOUS"])
def test_the_topics_user_counts_if_the_payload_names_the_same_or_none(named):
    assert resolved(request_json(1, user=named), "mutation-requests.alice") == "alice"


@pytest.mark.parametrize(
    ("user", "topic", "error"),
    [
        (
            "bob",
            "mutation-requests.alice",
            "user: the topic mutation-requests.alice belongs to another user (value: 'bob')",
        ),
        (
            "b" * 99,
            "mutation-requests.a",
            f"user: the topic mutation-requests.a belongs to another user (value: '{'b' * 40}'…)",
        ),
        (
            "alice",
            "mutation-requests",
            "user: this topic belongs to no user, expected mutation-requests.USER (value: mutation-requests)",
        ),
    ],
)
def test_a_request_that_names_another_user_is_not_decided(user, topic, error):
    assert resolved(request_json(1, user=user), topic) == error


def test_a_trusted_gateway_may_name_any_user():
    """The default: identity is the payload's."""
    resolved_request = resolve(
        Record(Source("mutation-requests.alice", 0, 7), 99, request_json(1, user="bob")), timeline(), Policy()
    )
    assert resolved_request.request.user == "bob"
