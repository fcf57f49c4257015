"""Recorded requests are decided again, and the effects are counted."""

import json
import tracemalloc
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.admission.decide import decide
from quota.admission.policy import Policy
from quota.algorithms.deduplication import Deduplication
from quota.algorithms.token_bucket import TokenBucket
from quota.records.quota_log import Window
from quota.whatif.effects import Effect, EffectCounts, Period
from quota.whatif.evaluation import Candidate, evaluate, resolved_to
from quota.whatif.simulation import read_quotas, simulate
from tests.support.factories import PERMISSIVE, START, decide_all, resolved
from tests.support.factories import request_after as at

REMEMBERED = Deduplication(window_ms=60_000)
TIGHT, ROOMY = TokenBucket(Window(num=1), REMEMBERED), TokenBucket(Window(num=100), REMEMBERED)  # B = 5 and 500 at 5/s
NARROW, WIDE = TokenBucket(Window()), TokenBucket(Window(num=100))  # B = 55 and 500 at 5/s


def effects(requests, by, recorded_by=NARROW):
    before = decide_all(*requests, algorithm=recorded_by)[1]
    return [Effect.of(again, kept) for again, kept in zip(decided_again(requests, by), before, strict=True)]


def decided_again(requests, by):
    state = None
    for request in requests:
        state, decision = decide(state, request, by)
        yield decision


def test_a_different_decision_is_named_with_its_fields():
    _, kept = decide(None, resolved(60, 1), NARROW)
    (again,) = decided_again([resolved(60, 1)], WIDE)
    expected = (
        "burst outcome topics controller_throttle_ms throttle_time_ms retry_at tokens_before tokens bucket_before"
    )
    assert again.differing_fields(kept) == expected.split()


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


RATE = "controller_mutation_rate"


def again(requests, *quotas):
    """Decide lines of requests by quotas, and then replay the result."""
    by = read_quotas(json.dumps({"entity": entity} | options).encode() for entity, options in quotas)
    candidate = Candidate("again", by, NARROW, Policy(), enforces_shadow=False)
    return evaluate(simulate(requests, by, NARROW), [candidate], "as recorded", reproduces=True)


def test_waits_of_a_sender_that_overlap_count_once_also_those_of_several_buckets():
    """K = -300 at 0, so -295 at 1,000: throttled until 60,000. A separate bucket has K = -60: until 65,000."""
    requests = [at(0, 355), at(1000, 1), at(5000, 71), at(5001, 1)]
    result = again(
        requests,
        ({"user": "alice"}, {RATE: 5}),
        ({"user": "alice", "client-id": "<none>"}, {RATE: 1, "effective_at": START + 5000}),
    )
    assert [outcome.load.throttled_seconds for outcome in result.outcomes] == [64, 64]
    assert result.replay.differing == 0


def test_decisions_are_reproduced_also_those_of_a_clock_that_is_set_back():
    """The clock is set back after the first, which leaves K = -5: the second is rejected, and 900 is the time then."""
    requests = [at(1000, 60), at(900, 1), *(at(1000 + 100 * number, 1) for number in range(20))]
    result = again(requests, ({"user": "alice"}, {RATE: 5}))
    assert (result.replay.decisions, result.replay.differing) == (22, 0)
    assert result.outcomes[0].load.rejected == 1 + 9 + 5  # the second, those until K = 0 at 1,900, then each other one


def test_differences_are_those_of_the_first_candidate_in_the_period_and_each_sender_has_an_example():
    lines = [at(ms, 1, user=user) for ms, user in enumerate(["a", "b", "a", "b"])]
    decisions = list(simulate(lines, read_quotas([]), NARROW))
    one = read_quotas([b'{"entity": {"user": null}, "controller_mutation_rate": 1}'])
    candidates = [Candidate(name, one, algorithm, Policy()) for name, algorithm in (("x", NARROW), ("y", WIDE))]
    replay = evaluate(decisions, candidates, "", Period(since=START + 1), reproduces=True).replay
    assert (replay.decisions, replay.differing) == (3, 3)
    assert [example.decision_id for example in replay.examples] == ["mutation-requests-0-1", "mutation-requests-0-2"]
    assert evaluate(decisions, candidates, "", reproduces=False).replay is None


@st.composite
def courses(draw):
    """Effects whose clocks are up to a second and a half behind; times are multiples of 100 ms."""
    now, course = 0, []
    for _ in range(draw(st.integers(0, 40))):
        now += draw(st.sampled_from([0, 1, 3, 20]))
        at = 100 * max(now - draw(st.sampled_from([0, 0, 5, 15])), 0)
        user, wait = draw(st.sampled_from("ab")), draw(st.integers(0, 9))
        course.append(Effect(user, "app", at, at + 100 * wait, 1, 0, draw(st.integers(0, 3))))
    return course


@given(courses(), st.sampled_from([None, 4000]))
def test_counts_are_the_same_if_older_ones_are_forgotten(effects, until):
    """The latest request tells which seconds and waits are over; each is counted by hand here."""
    newest, late_ms = 0, 0
    for effect in effects:
        newest = max(newest, effect.timestamp)
        late_ms = max(late_ms, newest - effect.timestamp)
    counts = EffectCounts(Period(None, until, late_ms))
    seconds, waits = Counter(), {"a": set(), "b": set()}
    for effect in effects:
        counts.add(effect)
        seconds[None, effect.timestamp // 1000] += effect.admitted
        seconds[effect.user, effect.timestamp // 1000] += effect.admitted
        waits[effect.user].update(range(effect.timestamp, min(effect.retry_at, until or effect.retry_at), 100))
    result = counts.result("")

    def peak(user):
        return max((admitted for (sender, _), admitted in seconds.items() if sender == user), default=0)

    assert (result.load.requests, result.load.peak) == (len(effects), peak(None))
    assert result.load.throttled_seconds == sum(map(len, waits.values())) / 10
    assert {sender.user: (sender.load.peak, sender.load.throttled_seconds) for sender in result.senders} == {
        user: (peak(user), len(waits[user]) / 10) for user in {effect.user for effect in effects}
    }


def test_counts_of_requests_in_order_take_no_more_memory_for_more_of_them():
    """Each is in a second of its own and throttles its sender; only the last one's are kept."""
    counts = EffectCounts(Period(late_ms=0))
    tracemalloc.start()
    for number in range(5000):
        counts.add(Effect("alice", "app", 10_000 * number, 10_000 * number + 500, 1, 0, 1))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 20_000
    load = counts.result("").load
    assert (load.throttled_seconds, load.peak) == (2500, 1)


def decided(*requests, by=WIDE):
    return decide_all(*requests, algorithm=by)[1]


def recorded(request, *before, by=WIDE):
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


def test_a_withdrawal_gives_back_to_each_candidate_what_it_charged():
    """560 of 500, and of 1,000: the bucket is full again. To the controller, a withdrawal is no load."""
    remembering, wide = (TokenBucket(Window(num=num), Deduplication(window_ms=9000)) for num in (100, 200))
    requests = [
        resolved(560, offset=1),
        resolved(560, at=1, offset=2, validate_only=True, withdraws=True),
        resolved(80, at=2, offset=3, request_id="next"),
    ]
    kept = decided(*requests, by=remembering)
    restored = [resolved_to(answered, requests[0].resolution) for answered in kept]
    assert decided(*restored, by=remembering) == kept
    tokens = [decision.tokens for decision in decided(*restored, by=wide)]
    assert tokens == [440, 1000, 920]
    assert effects(requests, remembering, remembering)[1] == Effect("alice", "<none>", 1, 1, 1)
