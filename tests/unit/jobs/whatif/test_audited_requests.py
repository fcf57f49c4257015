"""The what-if on tables of the audit: decisions are reproduced, and other quotas are tried."""

import json
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from jobs.audit.reader import bounded_duckdb
from jobs.whatif import audited_requests
from jobs.whatif.audited_requests import add_recorded_changes, open_requests, read_again
from jobs.whatif.evaluations import backtest, recommend
from quota.algorithms.token_bucket import TokenBucket
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import MutationQuotaError
from quota.planning.quota_file import read_quota_file
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Window
from quota.records.record import Source
from quota.whatif.effects import Period
from quota.whatif.recommendation import SizingInput, Tenancy, measure_demands
from quota.whatif.simulation import read_quotas, simulate
from tests.support.audited import ALICE as SIZED_ALICE
from tests.support.audited import BOB as SIZED_BOB
from tests.support.audited import GROUND, at_root, audited
from tests.support.audited import REQUESTS as SIZED
from tests.support.deployment import set_options, with_sections
from tests.support.factories import PERMISSIVE, START
from tests.support.factories import request_after as at
from tests.support.programs import run
from tests.support.tables import append_rows, quota_change_row

DAY_MS = 86_400_000
ALICE, BOB = {"entity": {"user": "alice"}}, {"entity": {"user": "bob"}}

CHANGES = {
    -1000: ALICE | {"controller_mutation_rate": 5},
    -900: BOB | {"controller_mutation_rate": 1, "shadow": True},
    20_000: ALICE | {"controller_mutation_rate": 2, "max_debt_ms": 5000},
    25_000: {"bucket": {"user": "alice"}},
    26_000: ALICE | {"controller_mutation_rate": 2.5, "altered_configs": ["controller_mutation_rate"]},
}


REQUESTS = [
    at(0, 60, 1, client_id="a"),  # alice has 55: -5, the second topic is rejected until 1,000
    at(100, 60, 1, client_id="a"),  # a repeat: the first topic was charged
    at(500, 4, client_id="b", purgatory_ms=100),  # rejected: 500 ms, less 100
    at(1000, 7, client_id="b"),  # K = 0 - 7
    at(1500, 2, user="bob", api_version=PERMISSIVE),  # in shadow
    at(1600, 20, 3, user="bob"),
    at(2000, 9, user="carol"),  # unlimited
    at(2500, 9, user="admin"),  # exempt
    at(3000, 9, validate_only=True),
    at(21_000, 99),  # 2/s by now: B = 22, and no debt deeper than 10
    at(22_000, 1),
    at(24_000, 1, api_version=PERMISSIVE),
    at(25_500, 20),  # full again, by a reset
    at(27_000, 20, 1),
]
"""The ids of all but the second are their own."""


def numbered(requests):
    for number, line in enumerate(requests):
        request = json.loads(line)
        request["request_id"] = "twice" if number < 2 else f"r-{number}"
        yield json.dumps(request).encode()


@pytest.fixture(scope="module")
def settings(base_settings, tmp_path_factory):
    """A deployment whose audit has stored the decisions on these requests."""
    quotas = [quota | {"effective_at": START + ms} for ms, quota in CHANGES.items()]
    root = tmp_path_factory.mktemp("root")
    return audited(base_settings, root, numbered(REQUESTS), quotas, changes=CHANGES, start=START)


@pytest.fixture
def backtested(settings):
    """Replay the deployment's audited decisions."""

    def _backtested(*candidates, since=None, until=None, **quota):
        return backtest(with_sections(settings, quota=quota), candidates, Period(since, until))

    return _backtested


def test_recorded_quotas_reproduce_decisions_and_others_give_their_own(backtested, tmp_path):
    (tmp_path / "plenty.yaml").write_text("quotas:\n- {entity: {user: alice}, controller_mutation_rate: 1000}\n")
    result = backtested(f"name=plenty,quotas={tmp_path}/plenty.yaml", "algorithm=sampled-rate", "name=in earnest")
    assert (result.replay.decisions, result.replay.differing) == (14, 0)
    recorded, again, plenty, rate, in_earnest = result.outcomes
    assert [outcome.name for outcome in result.outcomes] == [
        "as recorded",
        "recorded quotas",
        "plenty",
        "algorithm=sampled-rate",
        "in earnest",
    ]
    assert again.load == recorded.load
    assert recorded.load.rejected_requests == 5
    # alice: 60 + 7 + 99 + 1 (permissive) + 20 + 20; bob in shadow: 2 + 20 + 3; carol: 9; admin: 9
    assert recorded.load.admitted == 60 + 7 + 99 + 1 + 20 + 20 + 2 + 20 + 3 + 9 + 9
    assert recorded.load.peak == 99
    assert plenty.load.rejected == 0
    assert plenty.load.newly_admitted == recorded.load.rejected - 1  # the 1 that was requested twice is admitted once
    assert plenty.load.throttled_seconds == 0
    assert rate.load.requests == 14
    assert in_earnest.load.newly_rejected == 3  # bob's, who was in shadow


def test_only_decisions_in_the_period_count_and_buckets_have_their_earlier_charges(backtested):
    result = backtested(since=START + 500, until=START + 1500)
    assert (result.replay.decisions, result.replay.differing) == (2, 0)
    by_sender = [
        (row.client_id, row.load.requests, row.load.admitted, row.load.rejected, row.load.throttled_seconds)
        for row in result.outcomes[0].senders
    ]
    assert by_sender == [("b", 2, 7, 4, 0.4), ("a", 0, 0, 0, 0.5)]  # a is throttled until 1,000
    assert backtested(since=START + 500, until=START + 600).outcomes[0].load.throttled_seconds == 0.2


def moved(decision, partition, offset, ms):
    source = Source("mutation-requests", partition, offset)
    return replace(decision, decision_id=str(source), source=source, timestamp=START + ms, retry_at=START + ms)


def test_requests_come_by_time_but_within_a_partition_by_offset(base_settings, tmp_path):
    """The clock of the first partition steps back by 100 ms after its first request, and by 200 ms at midnight."""
    (decision,) = simulate([at(0, 1)], read_quotas([]), TokenBucket(Window()))
    midnight = DAY_MS - START % DAY_MS
    positions = [(0, 2, 1100), (1, 8, 1050), (0, 1, 900), (1, 7, 950), (0, 0, 1000)]
    positions += [(0, 4, midnight - 100), (0, 3, midnight + 100), (1, 9, midnight + 50), (0, 5, midnight + DAY_MS)]
    decisions = [moved(decision, *position) for position in positions]
    with open_requests(audited(base_settings, tmp_path, [], [], more=decisions), Period()) as requests:
        ordered = list(requests)
        assert ordered == list(requests)  # a second time
    ids = [decision.decision_id.removeprefix("mutation-requests-") for decision in ordered]
    assert ids == ["1-7", "0-0", "0-1", "1-8", "0-2", "1-9", "0-3", "0-4", "0-5"]
    assert requests.period.late_ms == 200


def test_a_file_may_lack_columns_that_were_added_after_it_was_written(base_settings, tmp_path):
    (decision,) = simulate([at(0, 1)], read_quotas([]), TokenBucket(Window()))
    settings = audited(base_settings, tmp_path, [], [], more=[decision])
    (file,) = Path(settings.storage.table("decisions")).rglob("date=*/*.parquet")
    pq.write_table(pq.ParquetFile(file).read().drop_columns(["observed", "more_tags"]), file)
    with open_requests(settings, Period()) as requests:
        assert list(requests) == [decision]


def test_requests_of_many_topics_are_sorted_with_more_memory(base_settings, tmp_path, monkeypatch):
    monkeypatch.setattr(audited_requests, "_MEMORY", "20MB")
    lines = [at(number, *[1] * 200, request_id=str(number)) for number in reversed(range(500))]
    decisions = list(simulate(lines, read_quotas([]), TokenBucket(Window())))
    with open_requests(audited(base_settings, tmp_path, [], [], more=decisions), Period()) as requests:
        assert [decision.request_id for decision in requests] == [str(number) for number in reversed(range(500))]


def test_only_the_read_that_lacks_memory_gets_more_and_no_row_comes_twice():
    with bounded_duckdb("192MB") as db:
        limits = []

        def memory_limit():
            return db.execute("SELECT current_setting('memory_limit')").fetchone()[0]

        def read():
            limits.append(memory_limit())
            yield "first"
            if len(limits) == 1:
                raise duckdb.OutOfMemoryException("no memory")
            yield "second"

        assert list(read_again(db, read)) == ["first", "second"]
        assert [*limits, memory_limit()] == ["183.1 MiB", "953.6 MiB", "183.1 MiB"]


def test_quotas_come_in_the_order_of_their_log_even_if_its_clock_stepped_back(settings, tmp_path):
    elsewhere = at_root(settings, tmp_path)
    later = {"effective_at": START + 5000}
    changes = [
        quota_change_row(7, START + 1000, **later),
        quota_change_row(8, START + 990, controller_mutation_rate=9.0, **later),
    ]
    append_rows(elsewhere, "quota_changes", *changes)
    quotas = CallbackTimeline()
    add_recorded_changes(quotas, elsewhere)
    assert quotas.resolve("alice", "app", START + 6000).limit.quota.rate == 9


def test_settings_that_were_different_then_are_detected(backtested):
    replay = backtested(window_num=12).replay
    assert replay.differing == 12  # all but those of carol and admin, who have no limit
    assert replay.examples[0].decision_id == "mutation-requests-0-0"
    assert replay.examples[0].fields[0] == "burst"


def test_the_command_says_whether_it_reproduces_and_prints_a_line_per_candidate(settings):
    given = [f"storage.root={settings.storage.root}", "quota.exempt_users=admin", "repeats.window_seconds=1"]
    options = ["--candidate", "window-num=100", "--limit", "1", *(part for text in given for part in ("--set", text))]
    done = run("backtest", *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert "The recorded quotas reproduce all 14 recorded decisions exactly." in done.stdout
    assert "window-num=100" in done.stdout
    assert "alice / <none>" in done.stdout
    assert "and 5 more; --limit N prints more of them, -o json all" in done.stdout


@pytest.fixture(scope="module")
def sized(base_settings, tmp_path_factory):
    """A deployment whose audit has the decisions on these requests, by 1/s for alice: 50 overdraw 11."""
    quotas = [{"entity": {"user": "alice"}, "controller_mutation_rate": 1}]
    return audited(base_settings, tmp_path_factory.mktemp("root"), SIZED, quotas, start=START)


def measured(sized, tenancy, since=None, until=None):
    with open_requests(sized, Period(since, until)) as requests:
        demands, together = measure_demands(requests, tenancy, frozenset({"admin"}), Window())
    needs = {demand.entity: (demand.mutations, demand.largest, demand.need, demand.load) for demand in demands}
    return needs, together


def test_needs_are_computed_from_charged_requests(sized):
    """At 1/s only alice's first topic was admitted: her repeat pays for the second, and 11 more are rejected."""
    needs, together = measured(sized, Tenancy.USER)
    assert needs == {
        SIZED_ALICE: (50 + 5 + 5 + 11, 55, pytest.approx(60 / 12), pytest.approx(71 / 12)),
        SIZED_BOB: (22, 22, 0, pytest.approx(2)),
    }
    assert together == pytest.approx(93 / 13)


def test_tenants_can_be_distinguished_by_other_tags(sized):
    clients, together = measured(sized, Tenancy.CLIENT)
    assert clients[QuotaEntity(client_id="b")] == (33, 22, pytest.approx(11 / 12), pytest.approx(33 / 12))
    both, same = measured(sized, Tenancy.USER_CLIENT)
    assert set(both) == {QuotaEntity("alice", "a"), QuotaEntity("alice", "b"), QuotaEntity("bob", "b")}
    assert together == same


def test_consequences_are_decided_by_the_quotas_themselves(sized):
    advice = recommend(sized, GROUND, Tenancy.USER, Period())
    assert advice.before_name == "as recorded"
    assert (advice.before.rejected, advice.after.rejected) == (5 + 5 + 11, 0)
    assert advice.after.admitted == 55 + 11 + 22 + 99  # all of her first, so her repeat pays nothing; and admin's
    assert [tenant.outlook.rejected_before for tenant in advice.tenants] == [5 + 5 + 11, 0]


def test_a_request_that_was_withdrawn_needs_no_quota(base_settings, tmp_path):
    """Bob's client gives up 22 after a second, and asks again."""
    back = at(1000, 22, user="bob", validate_only=True, withdraws=True)
    requests = [at(0, 22, user="bob"), back, at(2000, 20, 2, user="bob")]
    settings = audited(base_settings, tmp_path, requests, [{"entity": {"user": "bob"}, "controller_mutation_rate": 9}])
    (bob,) = recommend(settings, GROUND, Tenancy.USER, Period()).tenants
    assert (bob.share.demand.mutations, bob.share.demand.need) == (22, pytest.approx(20 / 11))


def test_requests_in_shadow_are_decided_as_enforced(sized):
    shadow = with_sections(sized, quota={"shadow": True})
    narrow = SizingInput(capacity=1.0, reserve=0.0, over_allocation=None, window=Window())
    in_shadow, enforced = (recommend(each, narrow, Tenancy.USER, Period()).after for each in (shadow, sized))
    assert in_shadow == enforced
    assert enforced.rejected == 5 + 5 + 11  # at a third of 1/s only her first topic is admitted


@pytest.mark.parametrize(
    ("since", "until", "message"),
    [
        (None, START, "there are no decisions: the table has none in that period"),
        (START + 3000, None, "the table has no charged requests in that period"),  # exempt, or not charged
    ],
)
def test_a_period_without_charges_is_reported_by_recommend(sized, since, until, message):
    with pytest.raises(MutationQuotaError, match=message):
        recommend(sized, GROUND, Tenancy.USER, Period(since, until))


def test_the_command_recommends_quotas_in_a_file_for_apply(sized, tmp_path):
    """Alice needs 5; the least claim is 38.5 in 11 s, from requests of 55 and 22. So 12 are claimed of 44.3.

    The loads sum up to 7.92, but to 7.15 at once: 40 * 7.92 / 7.15.
    """
    file = tmp_path / "quotas.yaml"
    given = [f"storage.root={sized.storage.root}", "quota.exempt_users=admin", "repeats.window_seconds=1"]
    options = [*set_options(*given), "--output-file", str(file), "--output", "json", "--capacity", "50"]
    done = run("recommend", *options)
    assert done.returncode == 0, done.stderr
    advice = json.loads(done.stdout)
    assert advice["rules"]["available"] == 40
    records = read_quota_file(file.read_bytes(), "quotas.yaml")
    rates = [(record.entity, record.controller_mutation_rate) for record in records]
    assert rates == [(QuotaEntity(None), 13.0), (SIZED_ALICE, 18.5)]
    assert records[-1].comment
    assert [quota["entity"] for quota in advice["quotas"]] == [{"user": None}, {"user": "alice"}]
