"""The figures of the experiment, and its page."""

import math

import pytest

from jobs.whatif.capacity import Throughput, read_capacity_file
from tests.evidence.experiment.figures import (
    Arm,
    Create,
    Phase,
    Room,
    Settled,
    back_to_normal,
    percentile,
    quota_for,
    scale_factor,
    summary,
    throughput,
)
from tests.evidence.experiment.report import storm_table, tenant_tables
from tests.support.checkout import CHECKOUT

DOCS = CHECKOUT / "docs/evidence/experiment"
NO_BOUND = Room(None, None, None)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_a_percentile_is_a_value_that_was_measured(share, expected):
    """Of 100, 99, ... 1, half are at most 50."""
    assert percentile(range(100, 0, -1), share) == expected


def test_failures_are_counted_and_have_no_latency():
    found = summary([0.2, None, 0.1])
    assert (found.count, found.failed, found.p50, found.largest) == (3, 1, 0.1, 0.2)


def test_if_all_calls_failed_there_are_no_latencies():
    assert summary([None]).p99 is None


def test_a_late_start_counts_as_waiting():
    assert Create(due=1.0, answered=1.5, usable=3.0).seconds_to_use == 2.0


def creates(*seconds_to_use):
    """One a second from 0 on."""
    return [Create(due, due, None if each is None else due + each) for due, each in enumerate(seconds_to_use)]


def test_the_cluster_has_caught_up_at_the_first_of_three_quick_calls_in_a_row():
    """Due at 2, 3 and 4 and usable within 0.25 s; the one at 0 is quick, but the next is not."""
    assert back_to_normal(creates(0.25, 9, 0.25, 0.25, 0.25), since=0, usual=0.25) == 2.25


def test_quick_calls_before_the_last_response_do_not_count():
    assert back_to_normal(creates(0.25, 0.25, 0.25, 0.25), since=0.5, usual=0.25) == 1.25


@pytest.mark.parametrize("seconds", [(0.25, 0.25), (0.25, 0.25, 1, 0.25), (0.25, None, 0.25, 0.25)])
def test_two_quick_calls_in_a_row_are_not_enough(seconds):
    assert back_to_normal(creates(*seconds), since=0, usual=0.25) is None


@pytest.mark.parametrize(
    ("room", "expected"),
    [
        (NO_BOUND, 1),
        (Room(1_000_000, 1_000_000, 2**40), 1),
        (Room(20_000, None, None), 2),  # 16,000 partitions fit, 2,500 of them others': 13,500 of 20,000
        (Room(None, 65_530, None), 1),  # two maps each: 26,212 fit
        (Room(None, 20_000, None), 4),  # 8,000 fit, 5,500 for the storm
        (Room(4096, 65_530, None), 26),  # 3,276 fit, 776 for the storm
        (Room(None, None, 2**30), 2),  # 64 KiB each: 13,107 fit, 10,607 for the storm
    ],
)
def test_the_storm_is_scaled_to_the_scarcest_resource(room, expected):
    assert scale_factor(20_000, 2500, room) == expected


def test_if_nothing_fits_the_storm_has_one_partition():
    assert scale_factor(20_000, 2500, Room(1024, None, None)) == 20_000


def phase(begun=0.0, caught_up=None, ended=0.0, settled=()):
    return Phase(begun, settled, caught_up, ended)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(20.0, 120.0), (21.5, 110.0), (2.5, 1000.0), (1000.0, 2.5), (4000.0, 1.0)],
)
def test_the_quota_is_a_quarter_of_the_clusters_rate_in_two_digits(seconds, expected):
    """10,000 mutations in 20 s are 500 a second; a quarter is 125."""
    assert math.isclose(quota_for(10_000, phase(begun=1.0, caught_up=1.0 + seconds)), expected)


def test_the_clusters_rate_is_measured_until_it_has_caught_up():
    """Two topics of four partitions in four seconds; the refused one was not carried out."""
    two, one = ((Settled(0.5, "a", None, False), Settled(1.0, "b", error, error is not None)) for error in (None, "x"))
    arm = Arm("", {}, phase(1.0, 5.0, 9.0, two), phase(10.0, None, 14.0, one))
    assert throughput(arm, 4) == Throughput(created_per_second=2.0, deleted_per_second=1.0)
    assert throughput(arm, 4).capacity == 1.0


def test_the_page_agrees_with_its_json_file():
    found = read_capacity_file(DOCS / "experiment.json")
    created, deleted = (f"{rate:,.0f}" for rate in (found.created_per_second, found.deleted_per_second))
    sentence = f"{created} mutations per second for creation and {deleted} for deletion"
    assert sentence in " ".join((DOCS / "experiment.md").read_text().split())


def test_the_rate_of_a_cluster_that_did_not_catch_up_uses_the_time_it_had():
    assert quota_for(10_000, phase(ended=100.0)) == 25.0


ARMS = [
    Arm(
        name,
        {
            "direct": (
                Create(-4.0, -3.97, -3.96),
                Create(-1.0, 2.0, 3.0),
                Create(1.0, 1.04, usable),
                Create(8.0, 8.03, None),
            )
        },
        phase(0.0, 5.0, 6.0, (Settled(0.5, "a", None, False), Settled(4.0, "b", "throttled", True))),
        phase(7.0, None, 9.0, (Settled(7.5, "a", None, False), Settled(7.6, "b", "no such topic", False))),
    )
    for name, usable in (("without a quota", 10.0), ("with a quota", 1.05))
]


def test_both_arms_are_rows_of_one_table():
    """The create at -1 s belongs to no phase: it may come after the storm."""
    answered, usable = tenant_tables(ARMS)
    assert answered.rows[2:4] == (
        ("creation", "direct", "without a quota", "1", "40", "40", "40"),
        ("creation", "direct", "with a quota", "1", "40", "40", "40"),
    )
    assert usable.rows == (
        ("before", "direct", "without a quota", "1", "40", "40", "40"),
        ("before", "direct", "with a quota", "1", "40", "40", "40"),
        ("creation", "direct", "without a quota", "1", "9,000", "9,000", "9,000"),
        ("creation", "direct", "with a quota", "1", "50", "50", "50"),
        ("deletion", "direct", "without a quota", "1 (1 failed)", "-", "-", "-"),
        ("deletion", "direct", "with a quota", "1 (1 failed)", "-", "-", "-"),
    )


def test_refused_calls_are_distinguished_from_failed_ones():
    of_one = {what: cells[0] for what, *cells in storm_table(ARMS).rows}
    assert of_one == {
        "creation: topics requested": "2",
        "creation: done": "1",
        "creation: refused at the time limit": "1",
        "creation: failed otherwise": "0",
        "creation: first request to last answer, s": "0.5",
        "creation: last answer until caught up, s": "4.5",
        "deletion: topics requested": "2",
        "deletion: done": "1",
        "deletion: refused at the time limit": "0",
        "deletion: failed otherwise": "1",
        "deletion: first request to last answer, s": "0.5",
        "deletion: last answer until caught up, s": "-",
    }


def test_the_page_has_the_same_table_as_the_terminal():
    lines = storm_table(ARMS).markdown().splitlines()
    assert lines[:3] == [
        "|  | without a quota | with a quota |",
        "| --- | ---: | ---: |",
        "| creation: topics requested | 2 | 2 |",
    ]
