"""The topics that an applier may change, and its results."""

import pytest

from quota.kafka.applier import TopicPermissions, _with_rejected
from quota.records.result import TopicResult
from tests.support.factories import decided


@pytest.mark.parametrize(
    ("pattern", "user", "client_id", "allowed", "denied"),
    [
        (".*", "alice", "app", ["orders", "my_orders", "orders__eu", "connect"], ["__consumer_offsets", "__"]),
        ("__.*", "alice", "app", [], ["__consumer_offsets"]),
        # Topics of other services are named by an alternative, or not at all.
        (".*", "alice", "app", [], ["_schemas", "_confluent-command", "connect-offsets", "mm2-configs.a.internal"]),
        ("[A-Za-z0-9._-]+", "alice", "app", ["a"], ["_schemas", "connect-offsets"]),
        ("[_a-z].*|(?!x).*", "alice", "app", ["a"], ["_schemas", "connect-offsets"]),
        ("_.*|.*", "alice", "app", ["a", "_schemas"], ["connect-offsets", "__consumer_offsets"]),
        (r".*|_a.*|connect\-(a|b)", "alice", "app", ["_ab", "connect-b"], ["_b", "connect-offsets", "mm2-x"]),
        (r"_(a|b)[c|d]|.*|connect\-.*", "alice", "app", ["connect-offsets", "_bd"], ["_a", "_schemas"]),
        ("_{client_id}", "alice", "app", ["_app"], ["_schemas"]),
        ("^_orders$", "alice", "app", ["_orders"], ["_schemas"]),
        ("{user}[.].*", "_svc", "app", ["_svc.x"], ["_schemas"]),
        ("{user}.*|.*", "a|_", "app", ["x"], ["_schemas"]),
        ("{client_id}.*", "alice", "_", [], ["_schemas"]),
        ("orders", "alice", "app", ["orders"], ["my-orders", "orders-2", "orders\n", "ORDERS", ""]),
        ("a|bc", "alice", "app", ["a", "bc"], ["ac", "ab"]),
        ("{user}-.*", "alice", "app", ["alice-orders"], ["bob-orders", "app-orders"]),
        ("{client_id}[.].*", "alice", "app", ["app.orders"], ["alice.orders"]),
        # The names of users and clients are matched literally.
        ("{user}-.*", "a.*", "app", ["a.*-x"], ["alice-x"]),
        ("{user}-.*", "a|.*", "app", ["a|.*-x"], ["a"]),
        ("{user}-.*", "{client_id}", "app", ["{client_id}-x"], ["app-x"]),
        ("{client_id}", "alice", ".*", [".*"], ["orders"]),
        ("{client_id}", "alice", "{user}", ["{user}"], ["alice"]),
    ],
)
def test_a_pattern_allows_the_whole_names_that_match_it(pattern, user, client_id, allowed, denied):
    permissions = TopicPermissions(pattern)
    names = [name for name in (*allowed, *denied) if permissions.denial(name, user, client_id) is None]
    assert names == allowed


def test_a_protected_topic_cannot_be_changed_and_others_can():
    permissions = TopicPermissions(".*", iter(["mutation-requests", "mutation.decisions"]), "users")
    denials = {
        name: permissions.denial(name, "alice", "app")
        for name in ("mutation-requests", "mutation.decisions", "users.bob", "mutation-requests-2", "usersXbob")
    }
    assert denials == {
        "mutation-requests": "topic mutation-requests is protected",
        "mutation.decisions": "topic mutation.decisions is protected",
        "users.bob": "topic users.bob is protected",
        "mutation-requests-2": None,
        "usersXbob": None,
    }
    assert permissions.denial("mutation-decisions", "alice", "app") is None  # a name, and no pattern
    assert TopicPermissions().denial("users.bob", "alice", "app") is None


def test_a_denial_names_the_setting():
    reason = TopicPermissions("{user}-.*").denial("bob-orders", "alice", "app")
    assert reason == "alice may not change topic bob-orders: applier.topic_pattern is {user}-.*"
    assert TopicPermissions().denial("_schemas", "alice", "app") == (
        "topic _schemas may belong to another service: applier.topic_pattern is .*, which matches it with no "
        "alternative that begins with _"
    )


OVERDRAWN = "user alice may change 5 partitions/s and is 10 over; try again in 2 s; decision mutation-requests-0-0"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{reason}; wiki/kafka", f"{OVERDRAWN}; wiki/kafka"),
        ("", None),
    ],
)
def test_the_results_of_a_decision_have_what_the_quota_rejected_in_the_order_of_its_topics(template, message):
    """One topic overdraws five tokens by ten."""
    decision = decided(15, 1, state=5.0)
    carried_out = [TopicResult("topic-0", 36, "TOPIC_ALREADY_EXISTS", "exists")]
    assert _with_rejected(decision, carried_out, template, now=0) == [
        *carried_out,
        TopicResult("topic-1", 89, "THROTTLING_QUOTA_EXCEEDED", message),
    ]
    assert _with_rejected(decided(1), carried_out, template, now=0) == carried_out
