"""Explanations of decisions: their facts, and that the decisions are reproduced."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.explanation.explanation import Charge, Neighbour, Neighbours, explain
from quota.explanation.quota_history import QuotaHistory, QuotaOrigin
from quota.explanation.refill import Gain, Origin
from quota.records.quota_log import QuotaLogEntry, QuotaRecord
from tests.support.explanations import (
    ALICE,
    CHANGED,
    FIVE,
    RESET,
    TEN,
    WINDOW,
    WORKED,
    decided,
    decided_one_by_one,
    explained,
)
from tests.support.factories import PERMISSIVE, STRICT

SCHEDULED = QuotaRecord(ALICE, 5.0, effective_at=-1000, altered_by="ann")


def differs(explanation):
    return explanation.recomputed.differs


def test_the_first_request_of_a_bucket_finds_it_full_and_is_charged_topic_by_topic():
    why = explained(WORKED, 0)
    assert (why.refill.origin, why.refill.tokens, why.refill.gains) == (Origin.NEVER_CHARGED, 500, [])
    assert [charge.tokens_before for charge in why.charges] == [500, 420, 340, 260, 180, 100, 20]
    assert why.charges[-1] == Charge("topic-6", 80, 20, -60, admitted=True, charged=True)
    assert differs(why) == []


def test_rejected_requests_in_between_have_not_written_the_bucket():
    why = explained(WORKED, 2)
    assert why.refill.written_by == "mutation-requests-0-0"
    assert why.refill.gains == [Gain(0, 12_000, 5, 500, -60, 0)]
    assert why.charges == [Charge("topic-0", 80, 0, -80, admitted=True, charged=True)]
    assert differs(why) == []


@pytest.mark.parametrize(
    ("log", "origin"),
    [
        ([FIVE], QuotaOrigin(ALICE, -1000, -1000, "ann", "as agreed")),
        # a scheduled one, with the time of its scheduling
        ([QuotaLogEntry(0, -5000, SCHEDULED)], QuotaOrigin(ALICE, -1000, -5000, "ann", None)),
        # the later of two at the same time
        ([FIVE, QuotaLogEntry(1, -1000, SCHEDULED)], QuotaOrigin(ALICE, -1000, -1000, "ann", None)),
        ([], None),
    ],
)
def test_the_quota_is_explained_with_its_author_and_time_if_its_record_is_stored(log, origin):
    why = explained(WORKED, log=log)
    assert (why.set_quota, differs(why)) == (origin, [])


def test_a_quota_changed_in_between_counts_from_its_timestamp():
    """Two seconds at 5/s, one at 10/s: -60, -50, -40; to be paid back in 4 s."""
    why = explained(CHANGED, log=[FIVE, TEN])
    assert why.refill.gains == [Gain(0, 2000, 5, 500, -60, -50), Gain(2000, 3000, 10, 1000, -50, -40)]
    assert why.recomputed.controller_throttle_ms == 4000
    assert differs(why) == []


def test_an_unknown_time_of_a_quota_change_is_reported():
    why = explained(CHANGED, log=[FIVE])
    assert (why.refill.tokens, why.refill.gains) == (None, [])
    assert differs(why) == ["tokens_before"]


def test_a_rejected_request_at_a_new_quota_has_written_the_bucket():
    """At 3 s it was written with -40, and is decided by 5/s again from 4 s: -30, and two seconds later -20."""
    back = QuotaLogEntry(2, 4000, QuotaRecord(ALICE, 5.0))
    decisions = decided(
        (0, [560], {}), (3000, [80], {"rate": 10.0, "since": 2000}), (6000, [80], {"rate": 5.0, "since": 4000})
    )
    why = explained(decisions, log=[FIVE, TEN, back])
    assert why.refill.written_by == "mutation-requests-0-1"
    assert why.refill.gains == [Gain(3000, 4000, 10, 1000, -40, -30), Gain(4000, 6000, 5, 500, -30, -20)]
    assert differs(why) == []


def test_after_a_reset_the_bucket_is_full():
    why = explained(decided((0, [560], {}), (2000, [80], {"reset_at": 1000})), log=[FIVE, RESET])
    assert (why.refill.origin, why.refill.reset_at, why.refill.tokens) == (Origin.RESET, 1000, 500)
    assert why.charges[0].tokens == 420
    assert differs(why) == []


def test_a_reset_before_the_last_charge_has_no_effect():
    why = explained(decided((0, [560], {}), (2000, [80], {"reset_at": 1000}), (3000, [80], {})), log=[FIVE, RESET])
    assert (why.refill.origin, why.refill.gains) == (Origin.LAST_WRITE, [Gain(2000, 3000, 5, 500, 420, 425)])
    assert differs(why) == []


def test_a_permissive_request_is_charged_in_debt():
    why = explained(decided((0, [560], {}), (0, [5, 5], {"api_version": PERMISSIVE})))
    assert [(charge.admitted, charge.tokens) for charge in why.charges] == [(True, -65), (True, -70)]
    assert why.recomputed.controller_throttle_ms == 14_000
    assert differs(why) == []


def test_a_bound_on_debt_forgives_what_is_beyond_it():
    """Ten seconds of 5/s: no deeper than -50."""
    why = explained(decided((0, [900], {"max_debt_ms": 10_000}), (1000, [1], {"max_debt_ms": 10_000})))
    assert why.refill.gains == [Gain(0, 1000, 5, 500, -50, -45)]
    assert differs(why) == []


def test_a_validate_only_request_is_not_charged():
    why = explained(decided((0, [560], {}), (2000, [80], {"validate_only": True}), (4000, [80], {})), 1)
    assert why.charges == [Charge("topic-0", 80, -50, -50, admitted=True, charged=False)]
    assert differs(why) == []


def test_a_validate_only_request_at_a_different_quota_has_not_written_the_bucket():
    """So for the bucket it was 5/s all the time."""
    decisions = decided(
        (0, [560], {}),
        (3000, [80], {"rate": 10.0, "since": 2000, "validate_only": True}),
        (6000, [80], {"since": 4000}),
    )
    why = explained(decisions, log=[FIVE, TEN, QuotaLogEntry(2, 4000, QuotaRecord(ALICE, 5.0))])
    assert why.refill.gains == [Gain(0, 6000, 5, 500, -60, -30)]
    assert differs(why) == []


def test_a_quota_in_shadow_is_explained_with_its_would_be_decision():
    why = explained(decided((0, [560], {"shadow": True}), (2000, [80], {"shadow": True})))
    assert why.charges == [Charge("topic-0", 80, -50, -50, admitted=False, charged=False)]
    assert why.recomputed.controller_throttle_ms == 10_000
    assert differs(why) == []


def test_a_repeat_is_not_charged_again():
    """The first try had two topics admitted of three; a minute later only the third is charged."""
    first = (0, [300, 300, 7], {})
    why = explained(decided(first, (60_000, [300, 300, 7], {}), repeats_ms=100_000))
    assert [(charge.charged, charge.tokens) for charge in why.charges] == [(False, 200), (False, 200), (True, 193)]
    assert why.recomputed.error_codes == [0, 0, 0]
    assert differs(why) == []


def test_a_repeat_that_cost_nothing_has_not_written_the_bucket():
    first = (0, [560], {})
    why = explained(decided(first, (1000, [560], {}), (2000, [1], {}), repeats_ms=100_000))
    assert why.refill.gains == [Gain(0, 2000, 5, 500, -60, -50)]
    assert differs(why) == []


def test_an_unlimited_request_has_no_bucket():
    why = explained(decided((0, [10**6], {"rate": None})))
    assert (why.refill, why.charges, why.recomputed, why.set_quota) == (None, [], None, None)


def test_a_table_that_begins_too_late_is_reported_and_the_rest_is_checked():
    why = explained(WORKED[1:2])
    assert (why.refill.origin, why.refill.tokens) == (Origin.NEVER_CHARGED, 500)
    assert differs(why) == ["tokens_before"]
    assert (why.recomputed.error_codes, why.recomputed.tokens) == ([89], -60)


@pytest.mark.parametrize(
    ("recorded", "name"),
    [
        ({"tokens": -81.0}, "tokens"),
        ({"tokens_before": 1.0, "tokens": -79.0}, "tokens_before"),
        ({"controller_throttle_ms": 16_000}, "controller_throttle_ms"),
        ({"topics": WORKED[1].topics}, "topics"),
    ],
)
def test_a_field_recorded_differently_is_named(recorded, name):
    changed = msgspec.structs.replace(WORKED[2], **recorded)
    assert differs(explained([*WORKED[:2], changed])) == [name]


def test_neighbours_are_in_order():
    decisions = decided((0, [1], {}), (1000, [2], {}), (2000, [3], {}), (3000, [4], {}), (4000, [5], {}))
    why = explained(decisions, 2, neighbours=1)
    (before,), (after,) = why.before, why.after
    assert before == Neighbour("mutation-requests-0-1", 1000, "ADMITTED", 2, False, 500, 498, 0)
    assert (after.decision_id, after.mutations) == ("mutation-requests-0-3", 4)
    assert why.refill.written_by == "mutation-requests-0-1"


def test_no_more_decisions_are_read_than_are_needed():
    """The second of four was charged, and the bucket had gained tokens since the first: nothing earlier matters."""
    decisions = decided((0, [1], {}), (1000, [1], {}), (12_000, [600], {}), (13_000, [1], {}), (14_000, [1], {}))

    def before():
        yield from reversed(decisions[1:4])
        pytest.fail("read on")

    why = explain(decisions[4], Neighbours(before(), [], 1), QuotaHistory([FIVE]), WINDOW)
    assert (why.refill.written_by, differs(why)) == ("mutation-requests-0-2", [])


requests = st.tuples(
    st.integers(-3000, 6000),
    st.integers(0, 300),
    st.fixed_dictionaries(
        {
            "partition": st.integers(0, 2),
            "api_version": st.sampled_from([STRICT, PERMISSIVE]),
            "validate_only": st.integers(0, 9).map(lambda number: number == 0),
        }
    ),
)
"""Times since the previous request [ms], costs, and other fields."""


@given(st.lists(requests, min_size=1, max_size=12))
def test_decisions_of_partitions_whose_clocks_differ_and_are_set_back_are_reproduced(tries):
    """The quota is 5/s, and 10/s from two seconds on."""
    now, timed = 0, []
    for wait, cost, fields in tries:
        now = max(now + wait, 0)
        timed.append((now, [cost], fields | ({"rate": 10.0, "since": 2000} if now >= 2000 else {})))
    decisions = decided_one_by_one(*timed)
    for number, decision in enumerate(decisions):
        again = explained(decisions, number, log=[FIVE, TEN]).recomputed
        assert (again.differs, again.tokens) == ([], pytest.approx(decision.tokens))


def test_a_clock_that_was_set_back_between_requests_of_another_partition_is_explained():
    """-60 at 10 s. Another partition's request at 9 s is late; then the first clock is set back to 5 s."""
    other = {"partition": 1}
    decisions = decided_one_by_one((10_000, [560], {}), (9000, [1], other), (5000, [1], {}), (9000, [1], other))
    late, back, last = (explained(decisions, number) for number in (1, 2, 3))
    assert [why.refill.written_by[-3:] for why in (late, back, last)] == ["0-0", "0-0", "0-2"]
    assert last.refill.gains == [Gain(5000, 9000, 5, 500, -60, -40)]
    assert [why.decision.controller_throttle_ms for why in (late, back, last)] == [13_000, 12_000, 8000]
    assert [differs(why) for why in (late, back, last)] == [[], [], []]
