"""The topics that each client may change."""

import pytest

from quota.kafka.applier.permissions import TopicPermissions


def may(allowed, name, user="alice", client_id="app"):
    return allowed.denial(name, user, client_id) is None


def test_any_topic_may_be_changed_by_default():
    assert may(TopicPermissions(), "orders")
    assert may(TopicPermissions(), "_orders")
    assert may(TopicPermissions(), "orders__eu")


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__"])
def test_kafkas_own_topics_are_protected_by_default(name):
    assert TopicPermissions().denial(name, "alice", "app") == f"topic {name} is protected"


def test_kafkas_own_topics_are_protected_from_a_pattern_that_names_them():
    assert not may(TopicPermissions("__.*"), "__consumer_offsets")


def test_a_protected_topic_cannot_be_changed_and_others_can():
    allowed = TopicPermissions(".*", iter(["mutation-requests", "mutation.decisions"]))
    for _ in range(2):
        assert allowed.denial("mutation-requests", "alice", "app") == "topic mutation-requests is protected"
    assert not may(allowed, "mutation.decisions")
    assert may(allowed, "mutation-requests-2")
    assert may(allowed, "mutation-decisions")  # a name, and no pattern


def test_a_topic_that_does_not_match_is_rejected_with_the_name_of_the_setting():
    reason = TopicPermissions("{user}-.*").denial("bob-orders", "alice", "app")
    assert reason == "alice may not change topic bob-orders: applier.topic_pattern is {user}-.*"


@pytest.mark.parametrize("name", ["my-orders", "orders-2", "orders\n", "ORDERS", ""])
def test_the_whole_name_has_to_match(name):
    assert not may(TopicPermissions("orders"), name)


@pytest.mark.parametrize(("name", "allowed"), [("a", True), ("bc", True), ("ac", False), ("ab", False)])
def test_the_whole_name_has_to_match_one_of_the_alternatives(name, allowed):
    assert may(TopicPermissions("a|bc"), name) is allowed


def test_the_user_placeholder_is_the_requests_user():
    allowed = TopicPermissions("{user}-.*")
    assert may(allowed, "alice-orders", user="alice")
    assert may(allowed, "bob-orders", user="bob")
    assert not may(allowed, "bob-orders", user="alice")
    assert not may(allowed, "app-orders", user="alice", client_id="app")


def test_the_client_id_placeholder_is_the_requests_client_id():
    allowed = TopicPermissions("{client_id}[.].*")
    assert may(allowed, "app.orders", client_id="app")
    assert not may(allowed, "alice.orders", user="alice", client_id="app")


def test_both_placeholders_may_occur_more_than_once():
    allowed = TopicPermissions("{user}-{client_id}|{client_id}-{user}")
    assert may(allowed, "alice-app")
    assert may(allowed, "app-alice")
    assert not may(allowed, "alice-alice")


@pytest.mark.parametrize(
    ("user", "own", "others"),
    [
        ("a.*", "a.*-x", "alice-x"),
        (".", ".-x", "a-x"),
        ("a|.*", "a|.*-x", "a"),
        ("(", "(-x", "x"),
        ("a\\", "a\\-x", "a-x"),
        ("[a-z]+", "[a-z]+-x", "bob-x"),
        ("{client_id}", "{client_id}-x", "app-x"),
        ("CN=alice, O=Big Co", "CN=alice, O=Big Co-x", "CN=alice,O=BigCo-x"),
    ],
)
def test_a_user_is_matched_literally(user, own, others):
    allowed = TopicPermissions("{user}-.*")
    assert may(allowed, own, user=user)
    assert not may(allowed, others, user=user)


@pytest.mark.parametrize(("client_id", "others"), [(".*", "orders"), ("a|orders", "orders"), ("{user}", "alice")])
def test_a_client_id_is_matched_literally(client_id, others):
    allowed = TopicPermissions("{client_id}")
    assert may(allowed, client_id, client_id=client_id)
    assert not may(allowed, others, client_id=client_id)


def test_request_topics_of_users_cannot_be_changed():
    allowed = TopicPermissions(user_topic_prefix="mutation-requests")
    assert allowed.denial("mutation-requests.bob", "bob", "app") == "topic mutation-requests.bob is protected"
    assert may(allowed, "mutation-requestsXbob")
    assert may(TopicPermissions(), "mutation-requests.bob")
