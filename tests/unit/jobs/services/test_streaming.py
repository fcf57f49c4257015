"""A dry run of `enforce --reset-state`, which needs neither a JVM nor Kafka; and a lease that is lost."""

import json
from collections import Counter
from contextlib import contextmanager
from unittest.mock import Mock

import pytest

from jobs.buckets.saved import BucketFileHeader, SavedBucket, SavedBuckets
from jobs.services import streaming
from jobs.services.standby import StoppedStandby
from jobs.services.streaming import run_enforce, start_queries
from jobs.storage.lease import LeaseLost
from quota.errors import MutationQuotaError
from quota.settings import load_settings
from schemas.buckets import STATE_VERSION
from tests.support.programs import run

UNREACHABLE = ("--set", "kafka.bootstrap_servers=127.0.0.1:1")


@pytest.fixture
def preview(tmp_path):
    """Run the command on a storage root in `tmp_path`."""

    def _preview(*options):
        root = f"storage.root={tmp_path / 'root'}"
        return run("enforce", "--reset-state", "--dry-run", "--set", root, *UNREACHABLE, *options)

    return _preview


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint whose next batch starts at the offset 7."""
    folder = tmp_path / "root/checkpoints/enforce" / f"v{STATE_VERSION}"
    files = {
        "metadata": '{"id": "an-id"}',
        "offsets/0": 'v1\n{"batchTimestampMs": 1}\n{"requests": {"0": 7}}',
        "commits/0": "v1\n{}",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (tmp_path / "root/deployment").mkdir()
    (tmp_path / "root/deployment/1").write_text(json.dumps({"topics": {"requests": "an-id"}}))
    return folder.parent


@pytest.fixture
def saved(tmp_path):
    """Save a bucket, charged up to an offset of the topic with an id."""

    def _saved(offset=7, topic_id="an-id"):
        header = BucketFileHeader(STATE_VERSION, 1, {"requests": topic_id}, {"requests": {"0": offset}})
        with (tmp_path / "buckets.jsonl").open("wb") as out:
            SavedBuckets(header, [SavedBucket('["user","alice"]', -1.0, 5, 2.0)]).write(out)
        return str(tmp_path / "buckets.jsonl")

    return _saved


def test_it_names_the_checkpoint_and_counts_the_buckets_of_the_file(preview, checkpoint, saved):
    file = saved()
    done = preview("--buckets", file)
    assert done.stdout == f"Would set the checkpoint {checkpoint} aside, and start with 1 bucket of {file}.\n"
    assert (done.returncode, done.stderr) == (0, "")


def test_it_says_that_there_is_no_checkpoint(preview, tmp_path):
    assert preview().stdout == (
        "Would start with full buckets from the oldest request.\n"
        f"There is no checkpoint of enforce in {tmp_path / 'root'}.\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"offset": 6}, "enforce has decided requests since the buckets were exported"),
        ({"topic_id": "another"}, "the buckets belong to a topic requests with the id another, but"),
    ],
)
@pytest.mark.usefixtures("checkpoint")
def test_buckets_that_would_not_be_restored_are_rejected(preview, saved, options, error):
    done = preview("--buckets", saved(**options))
    assert (done.returncode, done.stdout) == (1, "")
    assert error in done.stderr


def test_a_job_that_loses_its_lease_waits_for_it_again_and_takes_over_from_no_live_process(monkeypatch, caplog):
    claims = []

    def claim(_, name, *, take_over, standby):
        claims.append((name, take_over, standby))
        if len(claims) == 1:
            raise LeaseLost("enforce has lost its lease to process 7 on node-3, and has stopped")
        raise StoppedStandby

    monkeypatch.setattr(streaming, "claimed_deployment", claim)
    run_enforce(load_settings([], environment={}, with_default_file=False), once=False, take_over=True)
    (first, second) = claims
    assert (first, second) == (("enforce", True, first[2]), ("enforce", False, first[2]))
    assert caplog.messages == ["enforce has lost its lease to process 7 on node-3, and has stopped; it waits again"]


@pytest.mark.parametrize("plan", [None, "the plan"], ids=["that was not warmed", "of a standby"])
def test_spark_is_warmed_once_before_a_job_enforces_with_the_plan_of_its_standby(monkeypatch, plan):
    @contextmanager
    def claim(*_, standby, **__):
        standby.answers = plan
        yield "the session"

    warm, enforce = Mock(), Mock()
    for name, mock in (("claimed_deployment", claim), ("warm", warm), ("_enforce", enforce)):
        monkeypatch.setattr(streaming, name, mock)
    run_enforce(load_settings([], environment={}, with_default_file=False), once=False)
    assert warm.call_count == (plan is None)
    assert (enforce.call_args.args[1], enforce.call_args.kwargs) == ("the session", {"answers": plan})


def test_a_job_of_spark_submit_that_loses_its_lease_ends_because_its_jvm_has_ended(monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(streaming, "claimed_deployment", Mock(side_effect=[LeaseLost("it is lost"), StoppedStandby]))
    with pytest.raises(LeaseLost):
        run_enforce(load_settings([], environment={}, with_default_file=False), once=False)


def test_enforce_starts_before_the_audit_and_stops_if_the_audit_cannot_start(monkeypatch):
    order, enforcing = [], Mock(isActive=False)
    monkeypatch.setattr(streaming, "start_enforce", lambda _, answers: order.append(answers) or enforcing)
    monkeypatch.setattr(streaming, "start_audit", Mock(side_effect=MutationQuotaError("no table")))
    monkeypatch.setattr(streaming, "stop_after_batch", order.append)
    session = Mock(settings=load_settings(["enforce.with_audit=true"], environment={}))
    with pytest.raises(MutationQuotaError, match="no table"):
        start_queries(session, Counter(), "the plan")
    assert order == ["the plan", [enforcing]]
