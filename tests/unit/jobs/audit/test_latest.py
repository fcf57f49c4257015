"""The newest decisions of a selection, out of the table."""

import pytest

from jobs.audit.decisions import AuditedDecisions, Selection
from quota.admission.decide import decide
from quota.algorithms.token_bucket import TokenBucket
from quota.records.decision import Outcome
from quota.records.quota import Window
from quota.settings import load_settings
from tests.support.factories import decided, resolved
from tests.support.tables import append_rows, decision_row

DAY = 86_400_000
NOON = 20_000 * DAY + DAY // 2


@pytest.fixture
def kept(tmp_path):
    """Requests of alice and bob on three days; the second of alice's first day is refused."""
    settings = load_settings([f"storage.root={tmp_path}"], environment={}, with_default_file=False)
    offset = 0
    for user, times in (("alice", (NOON, NOON, NOON + 2 * DAY)), ("bob", (NOON + DAY, NOON + 2 * DAY - 1))):
        requests = [
            resolved(80, at=at, offset=offset + number, user=user, client_id=f"{user}-app")
            for number, at in enumerate(times)
        ]
        offset += len(times)
        for decision in decide(None, requests, TokenBucket(Window()))[1]:
            append_rows(settings, "decisions", decision_row(decision))
    return AuditedDecisions(settings)


def test_requests_refused_in_shadow_are_selected(tmp_path):
    settings = load_settings([f"storage.root={tmp_path}"], environment={}, with_default_file=False)
    for offset, tokens in enumerate((-1.0, 5.0)):
        decision = decided(3, at=NOON, state=tokens, shadow=True, offset=offset)
        assert decision.outcome is Outcome.ADMITTED
        append_rows(settings, "decisions", decision_row(decision))
    assert found(AuditedDecisions(settings), refused=True) == [("alice", 0)]


def found(kept, limit=100, **selection):
    return [(each.user, each.source.offset) for each in kept.latest(Selection(**selection), limit)]


def test_the_newest_are_last_and_a_limit_leaves_them(kept):
    assert found(kept) == [("alice", 0), ("alice", 1), ("bob", 3), ("bob", 4), ("alice", 2)]
    assert found(kept, 3) == [("bob", 3), ("bob", 4), ("alice", 2)]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({"user": "bob"}, [3, 4]),
        ({"client_id": "bob-app"}, [3, 4]),
        ({"user": "alice", "client_id": "bob-app"}, []),
        ({"refused": True}, [1]),
        ({"start": NOON + 1}, [3, 4, 2]),
        ({"end": NOON + DAY}, [0, 1]),
        ({"start": NOON + DAY, "end": NOON + 2 * DAY}, [3, 4]),
    ],
)
def test_a_selection_excludes_other_decisions(kept, selection, expected):
    assert [offset for _, offset in found(kept, **selection)] == expected
