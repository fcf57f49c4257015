"""What-if: the effect of a decision, and whether it equals the recorded one."""

import pytest

from quota.admission.decide import decide
from quota.algorithms.deduplication import Deduplication
from quota.algorithms.token_bucket import TokenBucket
from quota.records.quota import Window
from quota.whatif.backtest import Effect, differing_fields
from quota.whatif.rates import decide_next
from tests.support.factories import PERMISSIVE, resolved

REMEMBERED = Deduplication(window_ms=60_000)
TIGHT, ROOMY = TokenBucket(Window(num=1), REMEMBERED), TokenBucket(Window(num=100), REMEMBERED)  # B = 5 and 500 at 5/s
NARROW, WIDE = TokenBucket(Window()), TokenBucket(Window(num=100))  # B = 55 and 500 at 5/s


def recorded(*requests, by=NARROW):
    return decide(None, requests, by)[1]


def effects(requests, by, recorded_by=NARROW):
    before = recorded(*requests, by=recorded_by)
    return [Effect.of(again, kept) for again, kept in zip(decided_again(requests, by), before, strict=True)]


def decided_again(requests, by):
    state = None
    for request in requests:
        state, decision = decide_next(state, request, by)
        yield decision


def test_decisions_are_reproduced():
    requests = [resolved(60, 1, at=0), resolved(1, at=500), resolved(3, at=2000, api_version=PERMISSIVE)]
    found = [
        (again.admitted, again.retry_at, differing_fields(again, kept))
        for again, kept in zip(decided_again(requests, NARROW), recorded(*requests), strict=True)
    ]
    assert found == [
        ([True, False], 1000, ()),  # 55 - 60 = -5: a second
        ([False], 1000, ()),
        ([True], 2000, ()),
    ]


def test_a_different_decision_is_named_with_its_fields():
    (kept,) = recorded(resolved(60, 1))
    (again,) = decided_again([resolved(60, 1)], WIDE)
    expected = "burst outcome topics controller_throttle_ms throttle_time_ms retry_at tokens_before tokens"
    assert differing_fields(again, kept) == tuple(expected.split())


def test_an_effect_has_the_controllers_load_and_the_changes():
    narrow, wide = [effects([resolved(60, 7, at=1500)], by)[0] for by in (NARROW, WIDE)]
    assert narrow == Effect("alice", "<none>", 1500, 2500, 1, 1, 60, 7, 0, 0)
    assert wide == Effect("alice", "<none>", 1500, 1500, 1, 0, 67, 0, 7, 0)
    (back,) = effects([resolved(60, 7, at=1500)], NARROW, recorded_by=WIDE)
    assert (back.newly_admitted, back.newly_refused) == (0, 7)


def test_only_the_remaining_throttle_time_of_earlier_requests_counts():
    (effect,) = effects([resolved(60, 1, at=1500)], NARROW)  # until 2,500
    assert effect.counted_from(1500) == effect
    assert effect.counted_from(1600) == Effect("alice", "<none>", 1600, 2500)
    assert effect.counted_from(2500) is None


def test_requests_without_a_cost_are_not_load():
    remembering = TokenBucket(Window(), Deduplication(window_ms=1000))
    validated = effects([resolved(60, validate_only=True)], NARROW)[0]
    first, again = effects([resolved(50, offset=1), resolved(50, at=10, offset=2)], remembering, remembering)
    assert [each.admitted for each in (validated, first, again)] == [0, 50, 0]


@pytest.mark.parametrize(
    ("recorded_by", "by", "sums"),
    [
        (ROOMY, TIGHT, [(0, 100, 0, 100), (100, 0, 0, 0)]),
        (TIGHT, ROOMY, [(100, 0, 100, 0), (0, 0, 0, 0)]),
    ],
)
def test_a_repeat_costs_if_a_candidate_charges_it(recorded_by, by, sums):
    """Enough for both, 100 are charged at first, and the same again costs nothing; with 5 - 6 at first, it is later."""
    requests = [resolved(6, at=0, request_id="before", offset=0)]
    requests += [resolved(100, at=at, request_id="twice", offset=at) for at in (1, 2001)]
    found = effects(requests, by, recorded_by)[1:]
    assert [(each.admitted, each.refused, each.newly_admitted, each.newly_refused) for each in found] == sums
