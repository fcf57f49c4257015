"""The live view as a terminal shows it."""

import io

import pytest
from msgspec.structs import replace
from rich.console import Console

from jobs.sandbox.view import View
from quota.algorithms.token_bucket import TokenBucket
from quota.kafka.requests import ReceivedAnswer
from quota.records.quota import Window
from tests.support.factories import decide_all, resolved


def drawn(view, width):
    """Return the lines of the view at time 0 in a terminal of this width."""
    console = Console(width=width, height=50, file=io.StringIO())
    console.print(view.draw(console, 0.0))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def tenants(view, width):
    """Return the two lines of headings of the table and its rows."""
    lines = drawn(view, width)
    rule = next(number for number, line in enumerate(lines) if line.startswith("─"))
    return lines[rule - 2 : rule], lines[rule + 1 : -1]


def record(view, *costs, **names):
    """Add a decision on a request for topics of these costs at time 0; the quota is 5, and so the burst 55."""
    _, (decision,) = decide_all(resolved(*costs, at=0), algorithm=TokenBucket(Window()))
    view.record(ReceivedAnswer(replace(decision, **names), 0), 0.0)


@pytest.fixture
def view():
    """A view without tenants."""
    return View("title", Window())


def test_at_80_columns_it_shows_every_heading_and_the_names_of_its_own_clients(view):
    record(view, 60, 1, user_tag="ANONYMOUS", client_tag="kafka-topics.sh")
    record(view, 8, user_tag="etl", client_tag="nightly-batch")
    record(view, 1, tokens=None)
    (units, heading), rows = tenants(view, 80)
    assert units.split() == ["mutations", "mutations"]
    assert heading.split() == ["user", "client-id", "quota/s", "tokens", "burst", "throttled", "admitted", "refused"]
    assert rows[0].split() == ["ANONYMOUS", "kafka-topics.sh", "5", "-5.0", "55", "1.0", "s", "60", "1"]
    assert rows[1].split() == ["etl", "nightly-batch", "5", "47", "55", "8", "0"]


def test_long_names_are_cut_and_numbers_never(view):
    record(view, 60, 1, user_tag="u" * 60, client_tag="c" * 60)
    _, (row,) = tenants(view, 80)
    assert len(row) == 80
    assert row.endswith("…       5   -5.0    55     1.0 s        60         1")
    _, (wide,) = tenants(view, 200)
    assert wide.startswith(f"{'u' * 60} {'c' * 60} ")


def test_a_rounding_error_is_not_a_debt(view):
    record(view, 55, tokens=-1e-10)
    _, (row,) = tenants(view, 80)
    assert row.split() == ["alice", "*", "5", "0.0", "55", "55", "0"]


def test_admitted_and_refused_count_mutations_as_the_dashboard_does(view):
    """The first of topics of 60, 2,000 and 1 partitions leaves a debt."""
    record(view, 60, 2000, 1)
    _, (row,) = tenants(view, 80)
    assert row.split()[-2:] == ["60", "2,001"]
    assert "mutations: 60 admitted, 2,001 refused; dead letters: 0" in drawn(view, 80)
    assert view.lines(0.0)[0].endswith("; mutations: 60 admitted, 2,001 refused; dead letters: 0")


def test_buckets_that_a_terminal_has_no_lines_for_are_counted(view):
    for number in range(30):
        record(view, 1, user_tag=f"user-{number:02}", client_tag="")
    view.quote("kafka-topics.sh", "--create: done")
    for height, shown in ((24, 16), (40, 20), (5, 0)):
        console = Console(width=80, height=height, file=io.StringIO())
        console.print(view.draw(console, 0.0))
        lines = console.file.getvalue().splitlines()
        assert sum(line.startswith("user-") for line in lines) == shown
        assert lines[-1] == f"and {30 - shown} more buckets; Ctrl-C stops everything"
        assert len(lines) <= max(height, 8)


def test_latencies_are_those_of_the_last_minute(view):
    _, (decision,) = decide_all(resolved(1, at=0), algorithm=TokenBucket(Window()))
    view.record(ReceivedAnswer(decision, 9000), 0.0)
    view.record(ReceivedAnswer(decision, 200), 50.0)
    assert "p50 9000 ms, p99 9000 ms in the last minute" in view.lines(60.0)[0]
    assert "p50 200 ms, p99 200 ms in the last minute" in view.lines(60.5)[0]
    assert "p50 - ms" in view.lines(120.0)[0]
    assert view.has_decisions
