"""An audited decision, restored to the request that was decided, and compared with other decisions and answers."""

import pytest

from quota.admission.decide import decide, decide_next
from quota.admission.policy import Policy
from quota.admission.resolve import resolve
from quota.algorithms.deduplication import Deduplication
from quota.algorithms.token_bucket import Bucket, TokenBucket
from quota.records.entity import QuotaEntity
from quota.records.quota import Quota, Window
from quota.whatif.backtest import Effect, differing_fields
from quota.whatif.recorded import as_answered, as_enforced, resolved_to
from tests.support.factories import PERMISSIVE, record, request_json, resolved, timeline

BY = TokenBucket(Window(num=100))  # B = 500 at 5/s


def decided(*requests, by=BY):
    return decide(None, requests, by)[1]


def recorded(request, *before, by=BY):
    return decided(*before, request, by=by)[-1]


@pytest.mark.parametrize(
    "request_",
    [
        resolved(80, 90, at=7),
        resolved(80, api_version=PERMISSIVE),
        resolved(3, operation="DELETE_TOPICS", api_version=5),
        resolved(80, rate=None, request_throttle_ms=12),
        resolved(80, validate_only=True),
        resolved(80, exempt=True, rate=None),
        resolved(80, user="bob", client_id="app"),
        resolved(80, apply=False, expires_at=9),
    ],
)
def test_a_restored_request_is_decided_as_it_was(request_):
    before = resolved(560)  # K = -60
    kept = recorded(request_, before)
    assert recorded(resolved_to(kept, request_.resolution), before) == kept


@pytest.mark.parametrize(
    ("purgatory_ms", "request_throttle_ms", "expected_ms"),
    [(0, 0, 12_000), (5_000, 0, 7_000), (20_000, 0, 0), (5_000, 9_000, 9_000), (0, 20_000, 20_000)],
)
def test_a_time_in_purgatory_that_was_not_stored_is_inferred(purgatory_ms, request_throttle_ms, expected_ms):
    """K = -60 at 5/s: 12 s, less the stay, and not less than the request quota's own."""
    original = resolved(80, purgatory_ms=purgatory_ms, request_throttle_ms=request_throttle_ms)
    kept = recorded(original, resolved(560))
    assert kept.throttle_time_ms == expected_ms
    assert recorded(resolved_to(kept, original.resolution), resolved(560)).throttle_time_ms == expected_ms


def test_in_shadow_the_would_be_throttle_time_gives_the_time_in_purgatory():
    original = resolved(80, shadow=True, purgatory_ms=5_000)
    kept = recorded(original, resolved(560))
    assert (kept.throttle_time_ms, kept.shadow.throttle_time_ms) == (0, 7_000)
    assert recorded(resolved_to(kept, original.resolution), resolved(560)) == kept


def test_a_repeat_is_restored_as_one():
    remembering = TokenBucket(Window(num=100), Deduplication(window_ms=1000))
    first, again = resolved(80, offset=1), resolved(80, at=500, offset=2)
    kept = recorded(again, first, by=remembering)
    assert kept.repeats.decision_id == "mutation-requests-0-1"
    requests = [resolved_to(answered, again.resolution) for answered in decided(first, again, by=remembering)]
    assert recorded(requests[1], requests[0], by=remembering) == kept


OBSERVED = {"at": 0, "error_codes": [0, 89], "throttle_time_ms": 700}


def decision(*quotas, **fields):
    resolved = resolve(record(request_json(1, 2, client_id="app", **fields)), timeline(*quotas), Policy())
    _, (answer,) = decide(Bucket(-60.0, 0, Quota(5.0)), [resolved], TokenBucket(Window()))
    return answer


def test_the_clusters_answer_replaces_the_decision():
    answered = as_answered(decision(observed=OBSERVED))
    assert [(topic.error_code, topic.error) for topic in answered.topics] == [
        (0, "NONE"),
        (89, "THROTTLING_QUOTA_EXCEEDED"),
    ]
    assert (answered.outcome.value, answered.throttle_time_ms, answered.retry_at) == ("PARTIAL", 700, 700)


def test_without_a_quota_each_sender_is_separate():
    answered = as_answered(decision(observed=OBSERVED))
    assert (answered.user_tag, answered.client_tag) == ("alice", "app")


def test_a_request_that_was_not_observed_stays_admitted():
    answered = as_answered(decision())
    assert (answered.outcome.value, [topic.error_code for topic in answered.topics]) == ("ADMITTED", [0, 0])


def test_a_topic_rejected_in_shadow_is_rejected():
    enforced = as_enforced(decision((QuotaEntity("alice"), 5.0, 0), observed=OBSERVED))
    assert (enforced.outcome.value, [topic.error_code for topic in enforced.topics]) == ("REJECTED", [89, 89])
    assert (enforced.throttle_time_ms, enforced.shadow) == (12_000, None)


REMEMBERED = Deduplication(window_ms=60_000)
TIGHT, ROOMY = TokenBucket(Window(num=1), REMEMBERED), TokenBucket(Window(num=100), REMEMBERED)  # B = 5 and 500 at 5/s
NARROW, WIDE = TokenBucket(Window()), BY  # B = 55 and 500 at 5/s


def effects(requests, by, recorded_by=NARROW):
    before = decided(*requests, by=recorded_by)
    return [Effect.of(again, kept) for again, kept in zip(decided_again(requests, by), before, strict=True)]


def decided_again(requests, by):
    state = None
    for request in requests:
        state, decision = decide_next(state, request, by)
        yield decision


def test_decisions_are_reproduced():
    requests = [resolved(60, 1, at=0), resolved(1, at=500), resolved(3, at=2000, api_version=PERMISSIVE)]
    reproduced = [
        (again.admitted, again.retry_at, differing_fields(again, kept))
        for again, kept in zip(decided_again(requests, NARROW), decided(*requests, by=NARROW), strict=True)
    ]
    assert reproduced == [
        ([True, False], 1000, ()),  # 55 - 60 = -5: a second
        ([False], 1000, ()),
        ([True], 2000, ()),
    ]


def test_a_different_decision_is_named_with_its_fields():
    (kept,) = decided(resolved(60, 1), by=NARROW)
    (again,) = decided_again([resolved(60, 1)], WIDE)
    expected = "burst outcome topics controller_throttle_ms throttle_time_ms retry_at tokens_before tokens"
    assert differing_fields(again, kept) == tuple(expected.split())


def test_an_effect_has_the_controllers_load_and_the_changes():
    narrow, wide = [effects([resolved(60, 7, at=1500)], by)[0] for by in (NARROW, WIDE)]
    assert narrow == Effect("alice", "<none>", 1500, 2500, 1, 1, 60, 7, 0, 0)
    assert wide == Effect("alice", "<none>", 1500, 1500, 1, 0, 67, 0, 7, 0)
    (back,) = effects([resolved(60, 7, at=1500)], NARROW, recorded_by=WIDE)
    assert (back.newly_admitted, back.newly_rejected) == (0, 7)


def test_only_the_remaining_throttle_time_of_earlier_requests_counts():
    (effect,) = effects([resolved(60, 1, at=1500)], NARROW)  # until 2,500
    assert effect.counted_from(1500) == effect
    assert effect.counted_from(1600) == Effect("alice", "<none>", 1600, 2500)
    assert effect.counted_from(2500) is None


def test_requests_without_a_cost_are_not_load():
    remembering = TokenBucket(Window(), Deduplication(window_ms=1000))
    validated = effects([resolved(60, validate_only=True)], NARROW)[0]
    first, again = effects([resolved(50, offset=1), resolved(50, at=10, offset=2)], remembering, remembering)
    assert [effect.admitted for effect in (validated, first, again)] == [0, 50, 0]


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
    later = effects(requests, by, recorded_by)[1:]
    assert [
        (effect.admitted, effect.rejected, effect.newly_admitted, effect.newly_rejected) for effect in later
    ] == sums
