"""The figures of a report, and its intervals, from hand-made rows."""

import pyarrow.dataset as ds
import pytest

from jobs.audit.tables.reader import bounded_duckdb
from jobs.report import aggregation
from jobs.report.aggregation import ReportScope, compute_figures
from jobs.report.figures import Period
from quota.errors import MutationQuotaError, NotFound
from quota.records.fields import MAX_EPOCH_MS
from tests.support.tables import arrow_tables, change, decision, letter, moment

NOON = 1_795_262_400_000


def figures(wanted=ReportScope(), **rows):  # noqa: B008 it cannot be changed
    return compute_figures({name: ds.dataset(table) for name, table in arrow_tables(**rows).items()}, wanted)


def test_requests_and_mutations_are_summed_up_by_interval():
    report = figures(
        decisions=[
            decision(NOON, admitted=[3, 4]),
            decision(NOON + 900, admitted=[1], rejected=[20]),
            decision(NOON + 2000, rejected=[5]),
        ]
    )
    assert (report.start, report.width, report.count) == (NOON, 1000, 3)
    (alice,) = report.tenants
    assert alice.name == "user 'alice'"
    assert (alice.requests, alice.admitted, alice.rejected) == ([2, 0, 1], [8, 0, 0], [20, 0, 5])
    assert report.total.admitted == [8, 0, 0]
    assert report.others is None


@pytest.mark.parametrize(
    ("fields", "admitted", "rejected"),
    [
        ({}, 53, 9700),
        ({"topics": []}, 0, 0),
        ({"quota": None}, 53, 9700),
        ({"validate_only": True}, 0, 0),
        ({"repeats": {"decision_id": "requests-0-1", "topics": 1}}, 50, 9700),
        ({"repeats": {"decision_id": "requests-0-1", "topics": 3}}, 0, 9000),
        ({"repeats": {"decision_id": "requests-0-1", "topics": 1}, "validate_only": True}, 0, 0),
        ({"shadow": {"outcome": "PARTIAL", "error_codes": [89, 0, 0, 89]}}, 53, 9700),  # it is not enforced
    ],
)
def test_validations_and_topics_that_were_charged_before_count_only_as_requests(fields, admitted, rejected):
    row = decision(NOON, admitted=[3, 50], rejected=[700, 9000], **fields)
    total = figures(decisions=[row]).total
    assert (total.requests, total.admitted, total.rejected) == ([1], [admitted], [rejected])


def test_the_busiest_second_belongs_to_its_interval():
    """12 and 1 within one second, by two tenants; an interval is ten seconds."""
    rows = [decision(NOON, admitted=[5]), decision(NOON + 3000, admitted=[12])]
    rows += [decision(NOON + 3900, user="bob", admitted=[1]), decision(NOON + 2_400_000, admitted=[2])]
    report = figures(decisions=rows)
    assert report.width == 10_000
    assert (report.total.peak[0], report.total.peak[-1]) == (13, 2)
    assert report.tenants[0].peak[0] == 12


@pytest.mark.parametrize(
    ("throttles", "throttled"),
    [
        # it lasts until 2,500, reported at 0 and at 1,000; then from 2,700 until 3,000
        ([(0, "alice", 2500), (1000, "alice", 1500), (2700, "alice", 300), (3999, "alice", 0)], [1000, 1000, 800, 0]),
        # those of several tenants at the same time are added
        ([(0, "alice", 800), (100, "bob", 400)], [1200]),
        # one beyond the period ends with it
        ([(0, "alice", 2**31 - 1)], [1000]),
    ],
)
def test_a_throttle_time_counts_once_and_in_its_own_interval(throttles, throttled):
    rows = [decision(NOON + at, user=user, throttled_ms=length) for at, user, length in throttles]
    assert figures(decisions=rows).total.throttled == throttled


def test_a_throttle_from_before_the_period_counts_within_it():
    """Throttled at noon for 2,500 ms, without a further request; another client requests at 1,000."""
    rows = [decision(NOON, throttled_ms=2500), decision(NOON + 1000, user="bob"), decision(NOON + 3000, user="bob")]
    report = figures(ReportScope(first=NOON + 1500), decisions=rows)
    assert (report.start, report.total.throttled, report.total.requests) == (NOON + 1000, [500, 500, 0], [0, 0, 1])
    assert {tenant.name: sum(tenant.throttled) for tenant in report.tenants} == {"user 'bob'": 0, "user 'alice'": 1000}


def test_tokens_are_the_lowest_of_an_interval_and_unknown_without_charges():
    rows = [decision(NOON, tokens=-11.0), decision(NOON + 1, tokens=44.0)]
    rows += [decision(NOON + 2000, user="admin", user_tag="", tokens=None, burst=None)]
    report = figures(decisions=rows)
    assert report.tenants[0].tokens == [-11.0, None, None]
    assert report.tenants[0].share == [-0.2, None, None]
    assert report.tenants[1].name == "no quota"


def test_latency_is_the_time_from_the_request_to_its_decision_and_never_negative():
    rows = [decision(NOON + number, latency_ms=number + 1) for number in range(200)]
    total = figures(decisions=[*rows, decision(NOON + 1000, latency_ms=-50)]).total  # by a clock that is behind
    assert (total.p50, total.p99) == ([100, 0], [198, 0])


def test_tenants_after_the_busiest_are_summed_up(monkeypatch):
    monkeypatch.setattr(aggregation, "TENANTS", 2)
    rows = [decision(NOON + size, user=f"u{size}", admitted=[size]) for size in (7, 5, 3, 1)]
    report = figures(decisions=rows)
    assert [tenant.name for tenant in report.tenants] == ["user 'u7'", "user 'u5'"]
    assert (report.others.name, report.others.admitted) == ("2 others", [4])


def test_a_tenant_has_all_clients_of_a_bucket():
    rows = [
        decision(NOON, client="app", admitted=[9]),
        decision(NOON + 1, user="bob", user_tag="", client="app", admitted=[5]),
        decision(NOON + 2, user="bob", user_tag="", more_tags=[("group", "pay")], admitted=[1]),
    ]
    names = [tenant.name for tenant in figures(decisions=rows).tenants]
    assert names == ["user 'alice', client-id 'app'", "client-id 'app'", "group 'pay'"]


def test_dead_letters_are_counted_by_the_invalid_field():
    report = figures(
        decisions=[decision(NOON)],
        letters=[
            letter(NOON, "topics[0].partitions: expected `int` >= 0"),
            letter(NOON + 1500, "topics[17].partitions: expected `int` >= 0"),
            letter(NOON + 1, "value: not JSON"),
        ],
    )
    assert {cause.field: cause.counts for cause in report.letters} == {"topics[].partitions": [1, 1], "value": [1, 0]}


def test_quota_changes_are_at_the_time_they_took_effect():
    report = figures(
        decisions=[decision(NOON), decision(NOON + 5000)],
        changes=[
            change(NOON - 5000, rate=1.0),
            change(NOON + 1000, rate=7.5, altered_by="ann\n", comment="why"),
            change(NOON + 1500, rate=None, effective_at=moment(NOON + 2000)),
            change(NOON + 3000, kind="bucket_reset", entity=None, bucket='{"user":"alice"}'),
            change(NOON + 4000, kind="cluster", entity=None, user=None),
        ],
    )
    assert [(row.at - NOON, row.what) for row in report.changes] == [
        (1000, "user-principal 'alice': rate 1 -> 7.5"),
        (2000, "user-principal 'alice': removed (set at 2026-11-21T12:00:01.500Z)"),
        (3000, "buckets with user 'alice' reset"),
    ]
    assert (report.changes[0].altered_by, report.changes[0].comment, report.changes[0].user) == (
        "'ann\\n'",
        "why",
        "alice",
    )


def test_changes_before_the_first_decision_belong_to_the_period_that_was_asked_for():
    """A quota is set, and then its first request comes; what was set before the period is not in it."""
    tables = {"decisions": [decision(NOON + 600_000)], "changes": [change(NOON - 1), change(NOON + 1000)]}
    report = figures(ReportScope(first=NOON), **tables)
    assert [row.at - NOON for row in report.changes] == [1000]
    assert NOON - 60_000 < report.start <= NOON + 1000
    assert figures(**tables).changes == []


def test_a_report_on_one_user_has_their_requests_and_relevant_changes():
    report = figures(
        ReportScope(user="bob"),
        decisions=[decision(NOON, admitted=[1]), decision(NOON + 1, user="bob", admitted=[2])],
        letters=[letter(NOON, "value: not JSON")],
        changes=[change(NOON + 1), change(NOON + 2, user="bob"), change(NOON + 3, user=None)],
    )
    assert (report.total.admitted, report.letters, report.user) == ([2], None, "'bob'")
    assert [row.at - NOON for row in report.changes] == [2, 3]


@pytest.mark.parametrize(
    ("wanted", "start", "admitted"),
    [
        (ReportScope(NOON + 3000, NOON + 5999), NOON + 3000, [1, 1, 1]),
        (ReportScope(0, MAX_EPOCH_MS), NOON, [1] * 10),  # a period beyond the data is cut to it
    ],
)
def test_a_report_on_a_period_has_only_its_data(wanted, start, admitted):
    rows = [decision(NOON + 1000 * second, admitted=[1]) for second in range(10)]
    report = figures(wanted, decisions=rows)
    assert (report.start, report.width, report.total.admitted) == (start, 1000, admitted)


@pytest.mark.parametrize(
    ("wanted", "rows", "error"),
    [
        (ReportScope(), [], "the audit's tables are empty"),
        (
            ReportScope(first=NOON + 60_000),
            [decision(NOON)],
            "no decisions from 2026-11-21T12:01:00.000Z on; there are decisions from 2026-11-21T12:00:00.000Z to 2026",
        ),
        (
            ReportScope(last=NOON - 1, user="alice"),
            [decision(NOON, user="alice")],
            "no decisions of user 'alice' until 2026-11-21T12:00:00.000Z; there are decisions from",
        ),
        (
            ReportScope(user="bob"),
            [decision(NOON, user="alice")],
            "no decisions of user 'bob'; there are decisions from 2026-11-21T12:00:00",
        ),
    ],
)
def test_an_empty_report_gives_the_reason(wanted, rows, error):
    with pytest.raises(NotFound) as raised:
        figures(wanted, decisions=rows)
    assert str(raised.value).startswith(error)


def test_changes_cancelled_in_time_are_marked_and_late_cancellations_have_no_effect():
    late = {"kind": "cancel", "timestamp": moment(NOON + 500), "effective_at": moment(NOON)}
    report = figures(
        decisions=[decision(NOON)],
        changes=[
            change(NOON + 1, rate=7.0, **late),
            change(NOON + 2, kind="cancel", effective_at=moment(NOON + 900)),
            change(NOON + 3, kind="callback_cancel", entity=None, effective_at=moment(NOON + 950)),
        ],
    )
    assert [row.what for row in report.changes] == [
        "user-principal 'alice': rate 7",
        "user-principal 'alice': change scheduled for 2026-11-21T12:00:00.900Z cancelled",
        "callback: change scheduled for 2026-11-21T12:00:00.950Z cancelled",
    ]


def test_reasons_after_the_most_frequent_are_summed_up(monkeypatch):
    monkeypatch.setattr(aggregation, "_REASONS", 1)
    letters = [letter(NOON + number, error) for number, error in enumerate(["a: x", "a: y", "b: x", "c: x"])]
    assert [(cause.field, cause.counts) for cause in figures(letters=letters).letters] == [
        ("a", [2]),
        ("other reasons", [2]),
    ]


SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("length", "width"),
    [
        (1, SECOND),
        (300 * SECOND, SECOND),
        (301 * SECOND, 2 * SECOND),
        (DAY, 5 * MINUTE),
        (301 * DAY, 2 * DAY),
        (8000 * DAY, 32 * DAY),
    ],
)
def test_intervals_are_the_shortest_that_give_at_most_300(length, width):
    assert Period.over(0, length - 1).width == width


def test_a_period_covers_all_data_and_intervals_begin_at_round_times():
    period = Period.over(NOON + 7 * MINUTE, NOON + 19 * HOUR)
    assert (period.start, period.width, period.count) == (NOON + 5 * MINUTE, 5 * MINUTE, 228)
    assert period.end == NOON + 19 * HOUR + 5 * MINUTE


def test_rows_that_exceed_memory_and_disk_are_reported_in_one_line():
    limits = "SET memory_limit = '10MB'; SET max_temp_directory_size = '1MB'"
    rows = "CREATE TABLE t AS SELECT repeat('x', 1000) || i AS text FROM range(100000) AS r(i)"
    error = pytest.raises(MutationQuotaError, match=r"^too many rows for the memory and the disk: [^\n]*$")
    with error, bounded_duckdb() as db:
        db.execute(f"{limits}; {rows}")
