"""The what-if on tables of the audit: decisions are reproduced, and other quotas are tried."""

import json

import pyarrow as pa
import pytest

from jobs.audit.tables.reader import bounded_duckdb
from jobs.whatif import local_engine
from jobs.whatif.backtest import backtest, evaluate_candidates
from jobs.whatif.local_engine import LocalEngine
from jobs.whatif.recorded import add_recorded_changes
from quota.admission.policy import Policy
from quota.algorithms.token_bucket import TokenBucket
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import MutationQuotaError
from quota.records import codec
from quota.records.quota import Window
from quota.whatif.evaluation import Candidate, evaluate
from quota.whatif.simulation import read_quotas, simulate
from tests.support.audited import at_root, audited
from tests.support.deployment import with_sections
from tests.support.factories import PERMISSIVE, START
from tests.support.factories import request_after as at
from tests.support.programs import run
from tests.support.tables import append_rows, quota_change_row

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
        return backtest(with_sections(settings, quota=quota), candidates, since, until)

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


def again(requests, *quotas):
    """Decide lines of requests by quotas, and then replay the result."""
    by = read_quotas(json.dumps({"entity": entity} | options).encode() for entity, options in quotas)
    window = TokenBucket(Window())
    decisions = list(simulate(requests, by, window))
    recorded = pa.table({"decision": [codec.encode(decision) for decision in decisions]})
    with bounded_duckdb() as db:
        engine = LocalEngine(db, recorded, lambda _: None)
        candidate = Candidate("again", by, window, Policy(), enforces_shadow=False)
        result = evaluate_candidates(engine, [candidate], replayed=0)
    assert result.outcomes == evaluate(decisions, [candidate], "as recorded")  # as a file of requests
    return result


RATE = "controller_mutation_rate"


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


def test_in_a_partition_the_offset_orders_and_a_bucket_continues_across_batches(monkeypatch):
    """The clock is set back after the first, which leaves K = -5: the second is rejected, and 900 is the time then."""
    monkeypatch.setattr(local_engine, "_ROWS", 3)
    requests = [at(1000, 60), at(900, 1), *(at(1000 + 100 * number, 1) for number in range(20))]
    result = again(requests, ({"user": "alice"}, {RATE: 5}))
    assert (result.replay.decisions, result.replay.differing) == (22, 0)
    assert result.outcomes[0].load.rejected == 1 + 9 + 5  # the second, those until K = 0 at 1,900, then each other one


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


def test_a_period_without_decisions_is_reported(backtested):
    with pytest.raises(MutationQuotaError, match="no decisions to replay: the table has none in that period"):
        backtested(until=START)


def test_the_command_says_whether_it_reproduces_and_prints_a_line_per_candidate(settings):
    given = [f"storage.root={settings.storage.root}", "quota.exempt_users=admin", "repeats.window_seconds=1"]
    options = ["--candidate", "window-num=100", "--limit", "1", *(part for text in given for part in ("--set", text))]
    done = run("backtest", *options)
    assert (done.returncode, done.stderr) == (0, "14 decisions, replayed without Spark\n")
    assert "The recorded quotas reproduce all 14 recorded decisions exactly." in done.stdout
    assert "window-num=100" in done.stdout
    assert "alice / <none>" in done.stdout
    assert "and 5 more; --limit N prints more of them, -o json all" in done.stdout
