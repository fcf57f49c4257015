"""Buckets are listed out of the state store or the audit's table, while enforce runs and while it does not."""

import shutil

import pytest

from jobs.buckets.store import newest_buckets
from jobs.enforce.query import start_enforce
from jobs.spark.failures import QueryFailed
from jobs.spark.queries import stop_after_batch
from jobs.storage.files import DeploymentSession
from quota.errors import MutationQuotaError
from tests.support.deployment import with_sections
from tests.support.operator import Operator
from tests.support.waiting import until


@pytest.fixture
def operator(spark, deployment):
    """Return an operator after two requests of alice for 60 of her 100: 40 tokens, then -20."""
    operator = Operator(spark, deployment)
    operator.request("first", "second")
    operator.enforce()
    return operator


def test_buckets_are_listed_while_enforce_runs(spark, operator, command):
    """Buckets are listed as of the newest batch, and enforce continues undisturbed."""
    query = start_enforce(DeploymentSession.on(spark, operator.settings))
    options = ("--set", f"storage.root={operator.root}", "--set", "spark.master=local[1]")
    (row,) = command("buckets", "list", "--in-debt", "--output", "json", *options, spark=spark)["buckets"]
    assert query.isActive
    operator.request("third")
    until(lambda: "third" in operator.decided)
    stop_after_batch([query])
    assert operator.decided == {"first": 40.0, "second": -20.0, "third": -20.0}

    charged_at = operator.all_decided[1]["timestamp"]
    assert (row["bucket"], row["updated_at"]) == ({"user": "alice"}, charged_at)
    assert (round(row["tokens"]), round(row["tokens_now"])) == (-20, -20)
    assert (row["burst"], row["in_debt"]) == (100.0, True)

    operator.audit()
    (audited,) = command("buckets", "list", "--output", "json", "--set", f"storage.root={operator.root}")["buckets"]
    (stored,) = command("buckets", "list", "--from-checkpoint", "--output", "json", *options, spark=spark)["buckets"]
    assert audited["bucket"] == stored["bucket"]
    assert audited["tokens_now"] == pytest.approx(stored["tokens_now"], abs=0.01)


def test_a_batch_whose_files_are_removed_meanwhile_does_not_fail_the_listing(operator):
    """The files of the batch are removed while it is read; by then there is a newer batch, which is read."""
    commits = operator.checkpoint / "commits"
    shutil.copy(commits / "0", commits / "9")
    tries = []

    def take(saved):
        tries.append(saved)
        (commits / "9").unlink(missing_ok=True)
        return [round(bucket.K) for bucket in saved]

    assert newest_buckets(operator.run, take) == [-20]
    assert len(tries) == 2


def test_an_unreadable_batch_is_reported(operator):
    commits = operator.checkpoint / "commits"
    shutil.copy(commits / "0", commits / "9")
    with pytest.raises(QueryFailed, match="enforce failed: "):
        newest_buckets(operator.run, list)


def test_without_charges_there_are_no_buckets(spark, deployment):
    """There are none before a first batch, and after one of users without a quota."""
    operator = Operator(spark, with_sections(deployment, quota={"exempt_users": ["alice"]}))
    with pytest.raises(MutationQuotaError, match=r"there are no buckets in .*: enforce has not finished a batch yet"):
        newest_buckets(operator.run, list)
    operator.request("first")
    operator.enforce()
    assert newest_buckets(operator.run, list) == []
