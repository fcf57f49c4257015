"""The topics that an applier may change."""

import pytest

from quota.kafka.applier import TopicPermissions


@pytest.mark.parametrize(
    ("pattern", "user", "client_id", "allowed", "denied"),
    [
        (".*", "alice", "app", ["orders", "_orders", "orders__eu"], ["__consumer_offsets", "__"]),
        ("__.*", "alice", "app", [], ["__consumer_offsets"]),
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
