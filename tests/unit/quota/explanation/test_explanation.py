"""Explanations of decisions, each from its record alone: their facts, and that the decisions are reproduced."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quota.explanation.explanation import Charge, Gain, explain
from quota.records import codec
from quota.records.decision import Outcome, read_decision
from tests.support.explanations import CHANGED, WORKED, decided
from tests.support.factories import PERMISSIVE, STRICT


def explained(*requests, **more):
    """Return the explanation of the last of such decisions, from its JSON; it is reproduced."""
    return reproduced(decided(*requests, **more)[-1])


def reproduced(decision):
    why = explain(read_decision(codec.encode(decision)))
    assert (why.recomputed.differs, why.recomputed.tokens) == ([], decision.tokens)
    check_steps(why)
    return why


def check_steps(why):
    """Check that each step begins where the one before ends: from the bucket that was written to what is left of it."""
    decision, before = why.decision, why.decision.bucket_before
    if why.gains:
        first, last = why.gains[0], why.gains[-1]
        assert (first.tokens_before, last.tokens) == (before.tokens, decision.tokens_before)
        assert first.since == (before.updated_at if before.set_back_to is None else before.set_back_to)
        assert last.until == decision.timestamp
    for gain, later in pairwise(why.gains):
        assert gain.until == later.since
        gained = gain.tokens_before + (gain.until - gain.since) / 1000 * gain.rate
        assert gain.tokens == pytest.approx(min(gained, gain.burst))
    if why.charges:
        assert (why.charges[0].tokens_before, why.charges[-1].tokens) == (decision.tokens_before, decision.tokens)
    for charge in why.charges:
        cost = charge.partitions if charge.charged else 0
        bounds = {decision.max_debt_ms, before and before.max_debt_ms}  # the bucket's is that of a late request
        assert bounds != {None} or charge.tokens == charge.tokens_before - cost


def test_the_first_request_of_a_bucket_finds_it_full_and_is_charged_topic_by_topic():
    why = reproduced(WORKED[0])
    assert (why.decision.bucket_before.tokens, why.decision.bucket_before.updated_at, why.gains) == (500, None, [])
    assert [charge.tokens_before for charge in why.charges] == [500, 420, 340, 260, 180, 100, 20]
    assert why.charges[-1] == Charge("topic-6", 80, 20, -60, admitted=True, charged=True)


LIMITED = {"max_request_mutations": 50}


@pytest.mark.parametrize("fields", [{}, {"api_version": PERMISSIVE}, {"shadow": True}, {"validate_only": True}])
def test_a_topic_above_the_limit_is_rejected_and_not_charged(fields):
    """Also in a repeat, whose other topics were charged before."""
    request = (0, [51, 20, 600], LIMITED | fields)
    for decision in decided(request, request, repeats_ms=1000):
        rejected = [not charge.admitted for charge in reproduced(decision).charges]
        assert rejected == [False] * 3 if "validate_only" in fields else [True, False, True]


def test_a_quota_changed_in_between_counts_from_its_timestamp():
    """Two seconds at 5/s, one at 10/s: -60, -50, -40; to be paid back in 4 s."""
    why = reproduced(CHANGED[1])
    assert why.gains == [Gain(0, 2000, 5, 500, -60, -50), Gain(2000, 3000, 10, 1000, -50, -40)]
    assert why.recomputed.controller_throttle_ms == 4000


def test_a_bound_on_debt_forgives_what_is_beyond_it():
    """Ten seconds of 5/s: no deeper than -50. A tighter one, from its own time on, forgives more."""
    bounded, tighter = {"max_debt_ms": 10_000}, {"max_debt_ms": 2000, "since": 1000}
    assert explained((0, [900], bounded), (1000, [1], bounded)).gains == [Gain(0, 1000, 5, 500, -50, -45)]
    assert explained((0, [900], bounded), (2000, [1], tighter)).gains == [
        Gain(0, 1000, 5, 500, -50, -45),
        Gain(1000, 2000, 5, 500, -10, -5),
    ]


def test_a_validate_only_request_is_not_charged():
    why = explained((0, [560], {}), (2000, [80], {"validate_only": True}))
    assert why.charges == [Charge("topic-0", 80, -50, -50, admitted=True, charged=False)]


OBSERVED = {"at": 2000, "error_codes": [0], "throttle_time_ms": 3, "took_ms": 2, "assumed": [0]}


@pytest.mark.parametrize("more", [{}, {"observed": OBSERVED}])
def test_a_quota_in_shadow_is_explained_with_its_would_be_decision(more):
    why = explained((0, [560], {"shadow": True}), (2000, [80], {"shadow": True} | more))
    assert why.charges == [Charge("topic-0", 80, -50, -50, admitted=False, charged=False)]
    assert why.recomputed.controller_throttle_ms == 10_000


def test_a_repeat_is_not_charged_again():
    """The first try had two topics admitted of three; a minute later only the third is charged."""
    first = (0, [300, 300, 7], {})
    why = explained(first, (60_000, [300, 300, 7], {}), repeats_ms=100_000)
    assert [(charge.charged, charge.tokens) for charge in why.charges] == [(False, 200), (False, 200), (True, 193)]
    assert why.recomputed.error_codes == [0, 0, 0]


def test_a_withdrawal_gives_back_what_its_request_was_charged():
    """560 of 500 leave -60; at 2 s, -50 and 560 are 510, of which 500 fit."""
    why = explained((0, [560], {}), (2000, [560], {"validate_only": True, "withdraws": True}), repeats_ms=5000)
    assert (why.gains, why.charges) == ([Gain(0, 2000, 5, 500, -60, -50)], [])
    assert (why.recomputed.tokens_before, why.recomputed.tokens) == (-50, 500)


def test_a_late_request_gains_nothing_and_one_whose_clock_was_set_back_moves_the_bucket():
    """-60 at 10 s. Another partition's request at 9 s is late; then the first clock is set back to 5 s."""
    other = {"partition": 1}
    _, late, back, last = map(
        reproduced, decided((10_000, [560], {}), (9000, [1], other), (5000, [1], {}), (9000, [1], other))
    )
    assert late.gains == [Gain(10_000, 9000, 5, 500, -60, -60)]
    assert (back.decision.bucket_before.set_back_to, back.gains) == (5000, [Gain(5000, 5000, 5, 500, -60, -60)])
    assert last.gains == [Gain(5000, 9000, 5, 500, -60, -40)]
    assert [why.decision.controller_throttle_ms for why in (late, back, last)] == [13_000, 12_000, 8000]


@pytest.mark.parametrize("fields", [{}, {"exempt": True}, {"validate_only": True}])
def test_an_unlimited_request_has_no_bucket_and_is_reproduced(fields):
    why = reproduced(decided((0, [10**6], {"rate": None} | fields))[0])
    assert (why.decision.bucket_before, why.gains, why.charges) == (None, [], [])


def test_a_record_of_an_older_program_is_explained_from_its_tokens_and_not_recomputed():
    why = explain(replace(WORKED[2], bucket_before=None))
    assert why.charges == [Charge("topic-0", 80, 0, -80, admitted=True, charged=True)]
    assert (why.gains, why.recomputed) == ([], None)


def bucket(**changes):
    return {"bucket_before": replace(WORKED[2].bucket_before, **changes)}


@pytest.mark.parametrize(
    ("recorded", "names"),
    [
        ({"tokens": -81.0}, ["tokens"]),
        ({"tokens": -80.00000000000001}, ["tokens"]),
        ({"tokens_before": 1.0}, ["tokens_before"]),
        ({"controller_throttle_ms": 16_000}, ["controller_throttle_ms"]),
        ({"retry_at": 12_001}, ["retry_at"]),
        ({"outcome": Outcome.PARTIAL}, ["outcome"]),
        ({"topics": WORKED[1].topics}, ["topics"]),
        (bucket(tokens=-59.0), ["tokens_before", "tokens"]),
        (bucket(updated_at=1), "outcome topics controller_throttle_ms throttle_time_ms retry_at tokens_before tokens"),
        ({"quota": 6.0}, ["tokens_before", "tokens", "bucket_before"]),
        ({"burst": 501.0}, ["bucket_before"]),
        ({"max_debt_ms": 60_000}, ["bucket_before"]),
        (bucket(burst=499.0), ["bucket_before"]),
    ],
)
def test_a_changed_record_is_not_reproduced_and_what_differs_is_named(recorded, names):
    differs = explain(replace(WORKED[2], **recorded)).recomputed.differs
    assert differs == (names.split() if isinstance(names, str) else names)


def test_a_record_whose_times_and_rates_overflow_is_not_reproduced():
    before = replace(CHANGED[1].bucket_before, changed_at=2**63 - 1)
    why = explain(replace(CHANGED[1], quota=1.7e308, bucket_before=before))
    assert "tokens_before" in why.recomputed.differs


quotas = st.sampled_from(
    [None, (5.0, {}), (10.0, {}), (0.1, {"burst": 3.0}), (5.0, {"burst": 500.0, "max_debt_ms": 7000})]
)
requests = st.tuples(
    st.sampled_from([-3000, -1, 0, 1, 333, 1000, 60_000]),
    st.lists(st.sampled_from([0, 1, 3, 250, 500, 501]), min_size=1, max_size=3),
    quotas,
    st.integers(0, 9000),
    st.fixed_dictionaries(
        {
            "partition": st.integers(0, 1),
            "observed": st.sampled_from([None, None, OBSERVED]),
            "api_version": st.sampled_from([STRICT, PERMISSIVE]),
            "validate_only": st.integers(0, 9).map(lambda number: number == 0),
            "shadow": st.integers(0, 4).map(lambda number: number == 0),
            "reset_at": st.sampled_from([None, None, 500, 5000]),
            "request_throttle_ms": st.sampled_from([0, 0, 700]),
            "purgatory_ms": st.sampled_from([0, 0, 900]),
        }
    ),
)
"""Times since the previous request [ms], costs, quota, how long it has been in force [ms], and other fields."""


@given(st.lists(requests, min_size=1, max_size=12), st.sampled_from([0, 5000]))
def test_any_decision_is_reproduced_to_the_last_bit_from_its_record_alone(tries, repeats_ms):
    """Quotas come, go and change; clocks differ and are set back; 500 mutations leave the bucket at exactly 0."""
    now, timed = 0, []
    for wait, costs, quota, in_force, fields in tries:
        now = max(now + wait, 0)
        rate, options = quota or (None, {})
        if fields["observed"]:
            options = options | {"observed": OBSERVED | {"at": now, "error_codes": [0] * len(costs)}}
        elif fields["validate_only"]:
            options = options | {"withdraws": True}
        timed.append((now, costs, fields | options | {"rate": rate, "since": now - in_force}))
    for decision in decided(*timed, repeats_ms=repeats_ms):
        reproduced(decision)
