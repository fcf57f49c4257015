"""What-if: what a verdict comes to, and whether it is what was recorded."""

from quota.admission import decide
from quota.backtest import Again, AsRecorded, Effect, Effects, Verdict
from quota.bucket import Window
from quota.recorded import RecordedDecision
from quota.repeats import Repeats
from quota.token_bucket import TokenBucket
from tests.factories import PERMISSIVE, resolved

NARROW, WIDE = TokenBucket(Window()), TokenBucket(Window(num=100))  # B = 55 and 500 at 5/s


def recorded(*requests, by=NARROW):
    return [RecordedDecision.of(each) for each in decide(None, requests, by)[1]]


def effects(requests, by, recorded_by=NARROW):
    judge, of_bucket = Again(by), Effects()
    return [
        of_bucket.of(kept, judge.judge(kept, request))
        for kept, request in zip(recorded(*requests, by=recorded_by), requests, strict=True)
    ]


def test_what_was_decided_comes_out_again():
    requests = [resolved(60, 1, at=0), resolved(1, at=500), resolved(3, at=2000, api_version=PERMISSIVE)]
    judge = Again(NARROW)
    verdicts = [judge.judge(kept, request) for kept, request in zip(recorded(*requests), requests, strict=True)]
    assert [(each.admitted, each.retry_at, each.differing) for each in verdicts] == [
        ([True, False], 1000, ()),  # 55 - 60 = -5: a second
        ([False], 1000, ()),
        ([True], 2000, ()),
    ]


def test_what_comes_out_otherwise_is_named_by_its_fields():
    (kept,) = recorded(resolved(60, 1))
    assert Again(WIDE).judge(kept, resolved(60, 1)).differing == (
        "burst",
        "outcome",
        "topics",
        "controller_throttle_ms",
        "throttle_time_ms",
        "retry_at",
        "tokens_before",
        "tokens",
    )


def test_an_effect_tells_what_reaches_the_controller_and_what_has_changed():
    narrow, wide = [effects([resolved(60, 7, at=1500)], by)[0] for by in (NARROW, WIDE)]
    assert narrow == Effect("alice", "<none>", 1, 1, True, 60, 7, 1000, 0, 0)
    assert wide == Effect("alice", "<none>", 1, 1, False, 67, 0, 0, 7, 0)
    (back,) = effects([resolved(60, 7, at=1500)], NARROW, recorded_by=WIDE)
    assert (back.newly_admitted, back.newly_refused) == (0, 7)


def test_times_of_waiting_that_overlap_count_once():
    """K = -5 at 0 tells until 1,000, and so does 500; -5 + 5 - 60 at 1,000 would be admitted and tells nothing."""
    requests = [resolved(60, 1, at=0), resolved(1, at=500), resolved(60, at=1000), resolved(1, at=1500)]
    assert [each.throttled_ms for each in effects(requests, NARROW)] == [1000, 0, 0, 11_500]  # K = -57.5 at 1,500


def test_each_sender_waits_for_itself():
    of_bucket, verdict = Effects(), Verdict([False], 1000)
    kept = [recorded(resolved(1, client_id=client))[0] for client in ("a", "b", "a")]
    assert [of_bucket.of(each, verdict).throttled_ms for each in kept] == [1000, 1000, 0]


def test_what_costs_nothing_is_no_load():
    remembering = TokenBucket(Window(), Repeats(window_ms=1000))
    validated = effects([resolved(60, validate_only=True)], NARROW)[0]
    first, again = effects([resolved(50, offset=1), resolved(50, at=10, offset=2)], remembering, remembering)
    assert [each.admitted for each in (validated, first, again)] == [0, 50, 0]


def test_what_was_recorded_stands_as_it_was():
    (kept,) = recorded(resolved(60, 1))
    assert AsRecorded().judge(kept, None) == Verdict([True, False], 1000)
