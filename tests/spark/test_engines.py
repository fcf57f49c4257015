"""A what-if in Spark and one in this process give the same results, from the same rows."""

import json
import random

import msgspec
import pytest

from jobs.whatif import recorded
from jobs.whatif.backtest import backtest
from jobs.whatif.recommend import recommend
from quota.algorithms.token_bucket import TokenBucket
from quota.records.decision import Decision
from quota.records.quota import Window
from quota.records.record import Source
from quota.whatif.recommendation import SizingInput, Tenancy
from quota.whatif.simulation import read_quotas, simulate
from tests.support.audited import audited
from tests.support.deployment import with_sections
from tests.support.factories import PERMISSIVE, START, STRICT
from tests.support.factories import request_after as at
from tests.support.programs import given_session, run

QUOTAS = [
    {"entity": {"user": "alice"}, "controller_mutation_rate": 5, "max_debt_ms": 5000},
    {"entity": {"user": None, "client-id": None}, "controller_mutation_rate": 0.3},
    {"entity": {"user": "bob"}, "controller_mutation_rate": 1, "shadow": True},
]
GROUPS = {"group.pay.users": "carol;bob", "group.pay.controller_mutation_rate": "2"}
CALLBACK = "quota.callbacks.groups.GroupQuotaCallback"
CHANGES = {
    **{-3000 + number: quota for number, quota in enumerate(QUOTAS)},
    30_000: {"callback": {"class": CALLBACK, "configs": GROUPS}},
    40_000: {"bucket": {"user": "alice"}},
}


def scattered():
    """Yield decisions of three partitions whose clocks step back and forth; none of a bucket is in its order."""
    chance = random.Random(599)
    lines = [
        at(
            200 * number,
            *(chance.choice((1, 3, 40)) for _ in range(chance.randint(1, 3))),
            user=chance.choice(("alice", "bob", "carol", "admin", "données-été", "[/b]\x1b[2J")),
            client_id=chance.choice(("", "app", 'quote"s')),
            api_version=chance.choice((STRICT, STRICT, PERMISSIVE)),
            validate_only=chance.random() < 0.1,
            purgatory_ms=chance.choice((0, 100)),
            request_id=f"r-{number - (number % 9 == 1)}",
        )
        for number in range(300)
    ]
    decisions = list(
        simulate(lines, read_quotas(json.dumps(quota).encode() for quota in QUOTAS), TokenBucket(Window()))
    )
    for number, decision in enumerate(decisions):
        source = Source("mutation-requests", number % 3, number)
        yield msgspec.structs.replace(
            decision,
            decision_id=f"mutation-requests-{number % 3}-{number}",
            timestamp=decision.timestamp + chance.choice((0, 0, -900, 900)),
            source=source,
        )


@pytest.fixture(scope="module")
def settings(base_settings, tmp_path_factory):
    """A deployment with such decisions in its tables."""
    decisions = list(scattered())
    assert all(isinstance(decision, Decision) for decision in decisions)
    random.Random(7).shuffle(decisions)
    root = tmp_path_factory.mktemp("root")
    deployment = audited(base_settings, root, [], [], changes=CHANGES, start=START, more=decisions)
    return with_sections(deployment, quota={"callback_classes": [CALLBACK]})


@pytest.fixture
def both(spark, monkeypatch):
    """Return the results of work in this process and of the same work in Spark."""

    def _both(work):
        local = work()
        monkeypatch.setattr(recorded, "LOCAL_DECISIONS", 0)
        with given_session(spark):
            return local, work()

    return _both


CANDIDATES = ["window-num=2", "algorithm=sampled-rate", "name=in earnest"]


def test_a_backtest_of_a_period_is_the_same(both, settings):
    """What was decided before the period is not counted, but fills and empties the buckets that it begins with."""
    local, in_spark = both(lambda: backtest(settings, CANDIDATES, START + 20_000, START + 45_000))
    assert local == in_spark
    assert 115 < local.outcomes[0].load.requests < 135  # five a second, by clocks that are up to 900 ms wrong
    assert local.replay.differing > 0  # their clocks were changed
    assert {sender.user for sender in local.outcomes[0].senders} >= {"alice"}


@pytest.mark.nightly
def test_a_backtest_of_one_decision_is_the_same(both, base_settings, tmp_path):
    (only,) = simulate(
        [at(0, 60, 1)], read_quotas(json.dumps(quota).encode() for quota in QUOTAS), TokenBucket(Window())
    )
    settings = audited(base_settings, tmp_path, [], [], changes=CHANGES, start=START, more=[only])
    local, in_spark = both(lambda: backtest(settings, CANDIDATES[:1], None, None))
    assert local == in_spark
    assert (local.replay.decisions, local.replay.differing, local.outcomes[0].load.rejected) == (1, 0, 1)


def test_a_recommendation_is_the_same(both, settings):
    sizing = SizingInput(capacity=5.0, reserve=0.2, over_allocation=None, window=Window())
    local, in_spark = both(lambda: recommend(settings, sizing, Tenancy.USER_CLIENT, (START + 1000, None)))
    assert local == in_spark
    assert len(local.tenants) > 2


def test_the_command_says_that_it_starts_spark_for_many_decisions(spark, settings, monkeypatch):
    monkeypatch.setattr(recorded, "LOCAL_DECISIONS", 299)
    where = ["--set", f"storage.root={settings.storage.root}", "--set", f"quota.callback_classes={CALLBACK}"]
    done = run("backtest", *where, spark=spark)
    assert done.returncode == 0
    assert done.stderr == "300 decisions, replayed with Spark: they are more than 299\n"
