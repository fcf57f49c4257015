"""Buckets moved to a new checkpoint with a different number of state partitions: the same decisions as without."""

import pytest

from jobs.buckets.store import capture_buckets, restore_buckets
from jobs.storage.files import DeploymentSession
from quota.errors import MutationQuotaError
from tests.support.deployment import with_sections
from tests.support.operator import Operator
from tests.support.programs import run

PARTITIONS = 5


@pytest.fixture
def operator(spark, deployment):
    """Return an operator after two requests of each user for 60 of their 100: 40 tokens, then -20."""
    operator = Operator(spark, with_sections(deployment, repeats={"window_seconds": 3600.0}))
    operator.request("first", "second")
    operator.enforce()
    return operator


@pytest.fixture
def partitions(spark):
    """State partitions of queries that begin from now on, as `enforce.state_partitions` sets them."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    yield lambda count: spark.conf.set(name, str(count))
    spark.conf.set(name, before)


def states(operator):
    return {each.name for each in (operator.checkpoint / "state" / "0").iterdir() if each.name.isdecimal()}


def test_debts_and_remembered_requests_are_moved_and_nothing_is_decided_twice(spark, operator, partitions):
    saved = capture_buckets(DeploymentSession.on(spark, operator.settings))
    (bucket,) = saved.buckets
    assert (round(bucket.K), bucket.more is None) == (-20, False)

    partitions(PARTITIONS)
    restore_buckets(DeploymentSession.on(spark, operator.settings), saved)
    assert states(operator) == {str(number) for number in range(PARTITIONS)}
    assert capture_buckets(DeploymentSession.on(spark, operator.settings)) == saved

    operator.request("third", "first")
    operator.enforce()
    # Rejected for the debt, and a repeat of what was paid for is free: as without the move.
    answers = [(each["request_id"], each["outcome"], round(each["tokens"])) for each in operator.all_decided]
    assert answers == [
        ("first", "ADMITTED", 40),
        ("second", "ADMITTED", -20),
        ("third", "REJECTED", -20),
        ("first", "ADMITTED", -20),
    ]
    assert states(operator) == {str(number) for number in range(PARTITIONS)}
    assert {each.name for each in (operator.root / "checkpoints").iterdir() if each.is_dir()} == {
        "enforce",
        operator.checkpoint.parent.name,
    }


def test_decisions_after_the_copy_are_not_forgotten(spark, operator):
    saved = capture_buckets(DeploymentSession.on(spark, operator.settings))
    operator.request("third")
    operator.enforce()
    with pytest.raises(MutationQuotaError, match=r"enforce has decided requests since the buckets .* export again"):
        restore_buckets(DeploymentSession.on(spark, operator.settings), saved)
    operator.request("fourth")
    operator.enforce()
    assert operator.decided == {"first": 40.0, "second": -20.0, "third": -20.0, "fourth": -20.0}


def test_an_unfinished_batch_is_finished_first(spark, operator):
    (last,) = (operator.checkpoint / "commits").glob("0")
    last.unlink()
    with pytest.raises(MutationQuotaError, match=r"there are no buckets in .*: enforce has not finished a batch yet"):
        capture_buckets(DeploymentSession.on(spark, operator.settings))
    operator.enforce()
    operator.request("third")
    operator.enforce()
    (operator.checkpoint / "commits" / "1").unlink()
    with pytest.raises(MutationQuotaError, match=r"batch 1 of .* is not finished; run enforce --once to finish"):
        capture_buckets(DeploymentSession.on(spark, operator.settings))
    operator.enforce()
    (bucket,) = capture_buckets(DeploymentSession.on(spark, operator.settings)).buckets
    assert round(bucket.K) == -20


def test_the_commands_of_an_operator(spark, operator, command, partitions, tmp_path):
    """Export, begin with the file, and decide what has come since."""
    file = tmp_path / "buckets.jsonl"
    root = ("--set", f"storage.root={operator.root}", "--set", "spark.master=local[2]")
    assert f"Wrote {file}: 1 bucket.\n" in command("buckets", "export", "--output-file", str(file), *root, spark=spark)
    operator.request("third")
    partitions(3)
    begin = f"enforce --reset-state --yes --buckets {file} --once".split()
    assert "enforce starts with a new checkpoint; the old one is in" in command(*begin, *root, spark=spark)
    assert operator.decided == {"first": 40.0, "second": -20.0, "third": -20.0}
    assert states(operator) == {"0", "1", "2"}


def test_buckets_without_the_reset_option_are_rejected(tmp_path):
    done = run("enforce", "--buckets", "x.jsonl", cwd=tmp_path)
    assert done.returncode == 2
    assert "--buckets x.jsonl: only with --reset-state" in done.stderr
