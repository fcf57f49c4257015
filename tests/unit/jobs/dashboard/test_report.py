"""A report: the page with data of the audit's tables or of a file, and the same numbers on all ways to them."""

import json

import pytest
from typer.testing import CliRunner

from jobs.cli.program import app
from jobs.dashboard import report as reports
from jobs.dashboard.report import ReportScope, report_on_file, report_on_tables
from jobs.dashboard.state import PageState, View
from jobs.metrics.totals import DecisionTotals
from quota.admission.policy import Policy
from quota.algorithms.token_bucket import TokenBucket
from quota.errors import NotFound
from quota.records import codec
from quota.records.decision import Outcome, read_decision
from quota.records.quota_log import Window
from quota.records.record import MAX_EPOCH_MS
from quota.whatif.simulation import read_quotas, simulate
from tests.support.deployment import with_sections
from tests.support.factories import PERMISSIVE, START, request_after
from tests.support.rows import kafka_rows
from tests.support.tables import audit_records, change, data_of, decision, letter, moment, write_tables

HOUR = 3_600_000


@pytest.fixture
def report(settings):
    """Return a function that writes rows to tables, and returns the data of a report on them."""

    def _report(scope=ReportScope(), **rows):  # noqa: B008 it cannot be changed
        write_tables(settings, **rows)
        return data_of(report_on_tables(settings, scope).page)

    return _report


def sums(data, *names):
    return [sum(interval[name] for interval in data["intervals"]) for name in names]


OBSERVED = {"error_codes": [89], "throttle_time_ms": 7000}
"""What the cluster answered to a request that was read from a broker's log."""

REQUESTS = [
    request_after(0, 60, request_id="first"),  # alice has 55, and 5 a second: -5 left
    request_after(300, 60, request_id="first"),  # a repeat, which is not charged
    request_after(700, 30),  # at -1.5: rejected for 300 ms
    request_after(60_000, 20, user="bob"),  # 11 - 20 = -9, in shadow
    request_after(61_000, 7, user="bob"),  # at -8 it would be rejected
    request_after(120_000, 15, user="carol", observed=OBSERVED | {"at": START + 120_000}),
    request_after(121_000, 5, user="carol", observed=OBSERVED | {"at": START + 121_000}),
    request_after(1_800_000, 60, 9),  # 55 - 60 = -5; the second topic is rejected, for 1,000 ms
    # The clock was set back by a second: -5 - 2 = -7, throttled for 1,400 ms
    request_after(1_799_000, 2, api_version=PERMISSIVE),
    request_after(1_900_000, 500, user="dave", validate_only=True),
    b'{"request_id": 7, "timestamp": %d}' % (START + 1_900_500),
]
QUOTAS = [
    {"entity": {"user": "alice"}, "controller_mutation_rate": 5},
    {"entity": {"user": "bob"}, "controller_mutation_rate": 1, "shadow": True},
    {"entity": {"user": "carol"}, "controller_mutation_rate": 1},
]


def test_the_numbers_of_an_hour_are_the_same_on_both_pages_in_the_metrics_and_in_the_list(settings):
    """Ten requests with repeats, a quota in shadow, observed ones, a clock set back, a validation and a dead letter.

    Each is written 100 ms after its request, but those that were observed 50 minutes later.
    """
    settings = with_sections(settings, repeats={"window_seconds": 1.0})
    policy = Policy.of(settings)
    quotas = read_quotas(json.dumps(quota).encode() for quota in QUOTAS)
    answers = list(simulate(REQUESTS, quotas, TokenBucket(Window(), policy.deduplication), policy=policy))
    letter = answers.pop()
    times = [answer.timestamp + (3_000_000 if answer.observed else 100) for answer in answers]
    values = [codec.encode(answer) for answer in answers]
    written = [json.dumps(quota).encode() for quota in QUOTAS]
    audit_records(
        settings,
        kafka_rows(values, timestamps=times, topic=settings.topics.decisions)
        + kafka_rows([codec.encode(letter)], timestamps=[letter.timestamp], topic=settings.topics.dead_letters)
        + kafka_rows(written, timestamps=[START - HOUR] * 3, topic=settings.topics.quotas),
    )

    state, metrics = PageState(settings, START), DecisionTotals(Window(), 10)
    for answer, at in [*zip(map(read_decision, values), times, strict=True), (letter, letter.timestamp)]:
        state.record(answer, at)
        metrics.record(answer, at)
    state.refresh(START + HOUR - 1000, quotas, changed=True)
    live = json.loads(codec.encode(state.news(View(), START + HOUR - 1000)))
    saved = data_of(report_on_tables(settings, ReportScope(START, START + HOUR)).page)
    command = ["decisions", "list", "--from", str(START), "--to", str(START + HOUR), "--limit", "100"]
    given = ["--set", f"storage.root={settings.storage.root}", "--output", "json"]
    listed = json.loads(CliRunner().invoke(app, [*command, *given]).stdout)["decisions"]

    for page in (live, saved):
        assert sums(page, "decisions", "admitted", "rejected", "letters") == [10, 169, 39, 1]
        assert {row["name"]: (row["admitted"], row["rejected"]) for row in page["tenants"]} == {
            "user 'alice'": (122, 39),
            "user 'bob'": (27, 0),
            "user 'carol'": (20, 0),
            "all without a quota": (0, 0),
        }
        assert max(interval["wait"] for interval in page["intervals"]) == 1400
        assert [each["latency"] for each in page["decisions"]].count(None) == 2  # nobody waited for observed ones
        assert {each["latency"] for each in page["decisions"]} == {100, None}
        (alice,) = (row for row in page["tenants"] if row["user"] == "alice")
        assert (alice["level"]["tokens"], alice["level"]["at"]) == (-7.0, START + 1_799_000)
        assert [each["id"] for each in sorted(page["decisions"], key=lambda each: -each["place"])][:3] == [
            "mutation-requests-0-9",
            "mutation-requests-0-8",
            "mutation-requests-0-7",
        ]

    assert metrics.decisions == {Outcome.ADMITTED: 8, Outcome.PARTIAL: 1, Outcome.REJECTED: 1}
    assert (metrics.counts.mutations_admitted, metrics.counts.mutations_rejected) == (169, 39)
    assert (metrics.counts.shadow_rejected, metrics.repeats, metrics.dead_letters) == (2, 1, 1)
    assert [*metrics.latencies.cumulative()][1] == (100, 8)
    (alice,) = (each for each in metrics.tenants.busiest(START + HOUR - 1000) if each.last.user_tag == "alice")
    assert (alice.last.tokens, alice.last.timestamp) == (-7.0, START + 1_799_000)

    topics = [topic for each in listed if not each["validate_only"] and not each["repeats"] for topic in each["topics"]]
    assert len(listed) == 10
    assert sum(topic["partitions"] for topic in topics if topic["error_code"] == 0) == 169
    assert sum(topic["partitions"] for topic in topics if topic["error_code"] == 89) == 39
    assert max(each["throttle_time_ms"] for each in listed) == 1400
    (last,) = (each for each in listed if each["user"] == "alice" and each["decision_id"].endswith("-8"))
    assert last["tokens"] == -7.0


def test_a_page_has_the_newest_decisions_and_the_newest_that_were_rejected_or_throttled(report, monkeypatch):
    monkeypatch.setattr("jobs.dashboard.state._FIRST_DECISIONS", 2)
    rows = [decision(START + number, rejected=[1] if number in {0, 1, 2, 4} else []) for number in range(6)]
    ids = [each["id"] for each in report(decisions=rows)["decisions"]]
    assert [int(id_.rpartition("-")[2]) - START for id_ in ids] == [5, 4, 2]


def test_requests_stamped_by_a_clock_that_was_ahead_are_in_the_report_at_the_times_of_their_decisions(report):
    data = report(decisions=[decision(START + HOUR + at, admitted=[3], latency_ms=-HOUR) for at in (0, 1000, 4000)])
    assert (data["from"], data["to"], data["now"]) == (START, START + 5000, START + 4000)
    assert [(each["at"] - START, each["admitted"]) for each in data["intervals"]] == [(0, 3), (1000, 3), (4000, 3)]
    assert [each["at"] - START for each in data["decisions"]] == [4000, 1000, 0]


def test_changes_are_those_that_took_effect_in_the_period_and_the_quotas_in_force_at_its_start(report):
    data = report(
        decisions=[decision(START), decision(START + 5000)],
        changes=[
            change(START - 7000, user="bob", rate=2.0),
            change(START - 6000, rate=3.0),
            change(START - 5000, rate=1.0),
            change(START - 4000, user="bob", rate=None),
            change(START + 1000, rate=7.5, altered_by="ann\n", comment="why"),
            change(START + 1500, rate=None, effective_at=moment(START + 2000)),
            change(START + 3000, kind="bucket_reset", entity=None, bucket='{"user":"alice"}'),
            change(START + 3500, effective_at=moment(START + 60_000)),
            change(START + 4000, kind="cluster", entity=None, user=None, cluster="{}"),
        ],
    )
    changes = sorted(data["changes"], key=lambda each: each["offset"])
    assert [(each["at"] - START, each["what"]) for each in changes] == [
        (-5000, "user-principal 'alice': in force, rate 1"),
        (1000, "user-principal 'alice': rate 1 -> 7.5"),
        (2000, "user-principal 'alice': removed (set at 2026-11-21T13:00:01.500Z)"),
        (3000, "buckets with user 'alice' reset"),
    ]
    assert (changes[1]["altered_by"], changes[1]["comment"]) == ("'ann\\n'", "why")


def test_a_report_on_one_user_has_their_requests_and_relevant_changes(report):
    data = report(
        ReportScope(user="bob'"),
        decisions=[decision(START, admitted=[1]), decision(START + 9, user="bob'", admitted=[2])],
        letters=[letter(START, "value: not JSON")],
        changes=[
            change(START - 9),
            change(START - 9, user="bob'"),
            change(START + 9),
            change(START + 9, user="bob'"),
            change(START + 9, user=None, entity='{"user":null}'),
        ],
    )
    assert sums(data, "decisions", "admitted", "letters") == [1, 2, 0]
    assert data["user"] == "bob'"
    assert len(data["changes"]) == 3


def test_later_changes_of_others_displace_none_of_a_users_report(report):
    changes = [change(START, user="bob"), *(change(START + offset) for offset in range(1, 202))]
    data = report(ReportScope(user="bob"), decisions=[decision(START + 300, user="bob", admitted=[1])], changes=changes)
    assert len(data["changes"]) == 1


@pytest.mark.parametrize(
    ("scope", "start", "admitted"),
    [
        (ReportScope(START + 3000, START + 6000), START + 3000, 3),
        (ReportScope(0, MAX_EPOCH_MS), START, 10),  # a period beyond the data is cut to it
    ],
)
def test_a_report_on_a_period_has_only_its_data(report, scope, start, admitted):
    rows = [decision(START + 1000 * second, admitted=[1]) for second in range(10)]
    letters = [letter(START + 2999, "a: x"), letter(START + 5000, "b: y"), letter(START + 6000, "c: z")]
    data = report(scope, decisions=rows, letters=letters)
    assert (data["from"], sums(data, "admitted")) == (start, [admitted])
    assert (sums(data, "letters"), data["letter"]) == (([1], "b: y") if scope.since else ([3], "c: z"))


def test_nothing_of_a_long_period_expires_and_a_day_is_in_intervals_of_five_minutes(report):
    data = report(decisions=[decision(START + hour * HOUR, admitted=[1]) for hour in range(24)])
    assert len(data["intervals"]) == 24
    assert {interval["at"] % 300_000 for interval in data["intervals"]} == {0}
    assert [(row["admitted"], row["level"]) for row in data["tenants"]] == [(24, None)]


@pytest.mark.parametrize(
    ("scope", "error"),
    [
        (ReportScope(since=START + 1), "there are no decisions: the table has none in that period"),
        (ReportScope(user="bob"), "there are no decisions of user 'bob': the table has none in that period"),
    ],
)
def test_an_empty_report_gives_the_reason(report, scope, error):
    with pytest.raises(NotFound, match=f"^{error}$"):
        report(scope, decisions=[decision(START)])


SECOND, MINUTE, DAY = 1000, 60_000, 86_400_000


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
    assert reports._width_over(0, length - 1) == width  # noqa: SLF001


def file_of(tmp_path, *requests):
    file = tmp_path / "a&b.jsonl"
    file.write_bytes(b"\n".join(requests))
    return str(file)


ANSWERED = request_after(0, 60, 9, observed={"at": START, "error_codes": [0, 89], "throttle_time_ms": 7000})


def test_a_file_is_shown_with_the_answers_of_the_cluster(settings, tmp_path):
    """It admitted 60 and rejected 9, for 7 s, and nobody knows how long that took."""
    data = data_of(report_on_file(settings, file_of(tmp_path, ANSWERED), ReportScope(), None).page)
    assert sums(data, "decisions", "admitted", "rejected", "throttled") == [1, 60, 9, 1]
    (tenant,) = data["tenants"]
    assert (tenant["name"], tenant["level"], tenant["retry_at"]) == (
        "user 'alice', client-id '<none>'",
        None,
        START + 7000,
    )
    assert (data["decisions"][0]["latency"], data["decisions"][0]["wait"]) == (None, 7000)


def test_a_file_is_shown_as_quotas_would_have_decided_it(settings, tmp_path):
    """At a rate of 1 there are 11: 60 are admitted, and 9 rejected for 49 s; a second later 5 are rejected for 48 s."""
    (quotas := tmp_path / "quotas.jsonl").write_text('{"entity": {"user": null}, "controller_mutation_rate": 1}')
    file = file_of(tmp_path, ANSWERED, request_after(1000, 5), request_after(1000, 5, user="bob"))
    scope = ReportScope(user="alice")
    data = data_of(report_on_file(settings, file, scope, quotas).page)
    assert sums(data, "decisions", "admitted", "rejected") == [2, 60, 14]
    assert [each["wait"] for each in data["decisions"]] == [48_000, 49_000]
    assert [(row["name"], row["level"]["tokens"]) for row in data["tenants"]] == [("user 'alice'", -48.0)]
    in_force = "the default user-principal: in force, rate 1"
    assert [(each["at"], each["what"]) for each in data["changes"]] == [(0, in_force)]


def test_a_file_without_requests_of_the_user_is_an_error(settings, tmp_path):
    with pytest.raises(NotFound, match=r"^no requests of user 'bob'$"):
        report_on_file(settings, file_of(tmp_path, ANSWERED), ReportScope(user="bob"), None)
