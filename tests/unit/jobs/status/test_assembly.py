"""A deployment's state and its problems, from the reports of its parts, of which some may not answer."""

import os
import tarfile
import threading
import time
from dataclasses import replace

import pytest
from msgspec import structs

from jobs.metrics.endpoint import ServiceEndpoint
from jobs.metrics.loops import ApplierMetrics, LoopHealth
from jobs.sandbox.broker import free_port
from jobs.status import assembly
from jobs.status.assembly import Facts, assemble
from jobs.status.facts import AppliedFacts, QuotaLogFacts, read_endpoint, read_storage
from jobs.storage.deployment import Deployment
from jobs.storage.holder import Holder, Process
from quota.errors import ClusterError
from quota.kafka.applier import ApplierStats
from quota.kafka.applier_ledger import AppliedOffset
from quota.settings import load_settings
from quota.timeline.change import ScheduledChange
from schemas.documents.status import BatchStatus, CallbackStatus, EndpointStatus, TableStatus
from tests.support.checkout import CHECKOUT
from tests.unit.jobs.status.conftest import NOW, checkpoint, cluster, facts, storage, topic

REQUESTS = "mutation-requests"
CHANGE = ScheduledChange(NOW + 1, "user-principal 'alice' is removed")
NOBODY = Process(2**22, 0)
"""A process that cannot exist: its id is the first that Linux does not give."""


def query(status, name):
    (row,) = [row for row in status.queries if row.name == name]
    return row


def test_a_deployment_whose_jobs_have_read_everything_has_no_problems(settings):
    status = assemble(settings, facts())

    assert (status.ok, status.problems) == (True, [])
    assert [row.name for row in status.queries] == ["enforce", "audit"]


def test_reachable_parts_are_reported_without_kafka(settings):
    status = assemble(settings, Facts(NOW, None, "cannot reach Kafka at k:9092: rejected", storage(), None))

    assert status.problems == ["cannot reach Kafka at k:9092: rejected"]
    assert {row.exists for row in status.topics} == {None}
    assert query(status, "enforce").last_batch == BatchStatus(7, NOW - 5000)
    assert query(status, "enforce").lag is None
    assert status.tables


def test_reachable_parts_are_reported_without_the_storage(settings):
    status = assemble(settings, Facts(NOW, cluster(), None, None, "/srv/quota cannot be read"))

    assert status.problems == ["/srv/quota cannot be read"]
    assert {row.exists for row in status.topics} == {True}
    assert query(status, "enforce").exists is None


def lagging(first, end, overdue=None, position=None, stable=None):
    """Return facts about partition 0 of the requests, of which enforce has read up to a position."""
    bounds = {name: {(REQUESTS, 0): value} for name, value in (("first", first), ("end", end))}
    late = {} if overdue is None else {(REQUESTS, 0): overdue}
    positions = {} if position is None else {(REQUESTS, 0): position}
    held = {} if stable is None else {(REQUESTS, 0): stable}
    return facts(
        cluster(**bounds, overdue=late, stable=held), storage(enforce=checkpoint("enforce", 3, positions=positions))
    )


@pytest.mark.parametrize(
    ("given", "lags", "problem"),
    [
        (lagging(first=0, end=50, overdue=40, position=40), (10, 0, 0), None),
        (
            lagging(first=0, end=50, overdue=43, position=40),
            (10, 3, 0),
            "enforce: 3 records have waited for more than a minute: check that it is running and fast enough",
        ),
        # a partition that was added is read from its first record
        (lagging(first=3, end=5), (2, 0, 0), None),
        # records that were removed before they were read
        (
            lagging(first=30, end=50, position=10),
            (20, 0, 20),
            "enforce: 20 records were removed from their topic before it read them: see spark.fail_on_data_loss",
        ),
        # an open transaction, whose first record is younger than a minute, or older
        (lagging(first=0, end=50, overdue=40, position=40, stable=49), (10, 0, 0), None),
        (
            lagging(first=0, end=50, overdue=43, position=40, stable=40),
            (10, 3, 0),
            (
                f"records have been unreadable for more than a minute: a transaction has been open on {REQUESTS}-0 "
                f"since offset 40; unless it ends by itself, end it: kafka-transactions.sh --bootstrap-server "
                f"127.0.0.1:9092 abort --topic {REQUESTS} --partition 0 --start-offset 40"
            ),
        ),
    ],
)
def test_lag_counts_the_records_after_the_position_of_a_partition(settings, given, lags, problem):
    status = assemble(settings, given)

    row = query(status, "enforce")
    assert [(partition.lag, partition.overdue, partition.lost) for partition in row.partitions] == [lags]
    assert (row.lag, row.overdue) == lags[:2]
    assert [text.partition(" in docs/")[0] for text in status.problems] == ([problem] if problem else [])


def endpoint(**fields):
    return facts(endpoints=[EndpointStatus("h:1", **fields)])


NONE = checkpoint("enforce", 3, exists=False, last_batch=None, positions=None)
TORN = checkpoint("audit", 1, damage="offsets/7 is truncated")


def upkeep(hours):
    """Return a table whose last commit is so many hours after its upkeep; without new records there is none."""
    table = TableStatus("decisions", exists=True, committed_at=NOW + hours * 3_600_000, maintained_at=NOW)
    return facts(storage_facts=storage(tables={"decisions": table}))


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        (facts(cluster({REQUESTS: None})), [f"topic {REQUESTS} is missing"]),
        (facts(cluster({"mutation-results": None})), []),  # only the applier and observe follow need it
        (
            facts(cluster(configs={REQUESTS: {"message.timestamp.type": "CreateTime"}})),
            [f"topic {REQUESTS} is stamped by producers"],
        ),
        (
            facts(cluster(configs={"mutation-positions": {"cleanup.policy": "compact,delete"}})),
            ["topic mutation-positions: cleanup.policy=compact,delete, so that positions of appliers and observers"],
        ),
        (
            facts(cluster({REQUESTS: topic(REQUESTS, 2, leader=-1, in_sync=())})),
            [
                f"topic {REQUESTS}: 2 of 2 partitions have no leader",
                f"topic {REQUESTS}: 2 of 2 partitions are under-replicated: check the brokers",
            ],
        ),
        (
            facts(storage_facts=storage(Deployment(topics={REQUESTS: "another id"}, checkpoints={"enforce": 3}))),
            [f"topic {REQUESTS} is not the topic that /srv/quota belongs to"],
        ),
        (
            facts(storage_facts=storage(Deployment(checkpoints={}), enforce=NONE)),
            ["enforce has not run on /srv/quota"],
        ),
        (
            facts(storage_facts=storage(Deployment(checkpoints={"enforce": 2}), enforce=NONE)),
            ["enforce: its buckets have version 2, but the checkpoint checkpoints/enforce/v3"],
        ),
        (
            facts(storage_facts=storage(audit=TORN)),
            ["audit: the checkpoint checkpoints/audit/v1 is incomplete: offsets/7 is truncated"],
        ),
        (
            facts(storage_facts=storage(tables={"decisions": TableStatus("decisions", exists=False)})),
            ["table decisions is missing, and audit has run"],
        ),
        (
            facts(storage_facts=storage(tables={"decisions": TableStatus("decisions", error="a newer program")})),
            ["table decisions: a newer program"],
        ),
        (upkeep(hours=47), []),
        (
            upkeep(hours=49),
            ["table decisions was last maintained on 2026-11-21T13:00:00.000Z, although it is written: see the "],
        ),
        (endpoint(error="Connection refused"), ["metrics at h:1: Connection refused: check that the job is running"]),
        (
            endpoint(ready=False, jobs=[], reason="it is starting"),
            ["metrics at h:1: the job is not ready: it is starting"],
        ),
    ],
)
def test_what_is_missing_or_unsuitable_is_a_problem(settings, given, problems):
    status = assemble(settings, given)

    assert [problem[: len(start)] for problem, start in zip(status.problems, problems, strict=True)] == problems
    assert status.ok is not bool(problems)


THREE_BROKERS = cluster(configs={REQUESTS: {"unclean.leader.election.enable": "true"}})
THREE_BROKERS = replace(THREE_BROKERS, layout=replace(THREE_BROKERS.layout, brokers=(1, 2, 3)))


@pytest.mark.parametrize(
    ("found", "name", "difference"),
    [
        (cluster({REQUESTS: topic(REQUESTS, 6)}), REQUESTS, ("partitions", "2", "6")),
        (
            cluster(configs={"mutation-results": {"retention.ms": "1000"}}),
            "mutation-results",
            ("retention.ms", "604800000", "1000"),
        ),
        # compaction never changes the first offset
        (cluster(first={("mutation-quotas", 0): 4}, end={}), "mutation-quotas", ("first offset", "0", "4")),
        # it would be lost with one of the brokers
        (THREE_BROKERS, REQUESTS, ("replication.factor", "3", "1")),
    ],
)
def test_a_topic_that_differs_from_the_jobs_defaults_is_reported_and_not_a_problem(settings, found, name, difference):
    status = assemble(settings, facts(found))

    (row,) = [row for row in status.topics if row.name == name]
    found = [(each.config, each.created, each.found) for each in row.differences if each.config != "max.message.bytes"]
    assert (found, status.ok) == ([difference], True)


def test_a_missing_topic_of_a_user_is_a_problem_unless_it_is_retired():
    settings = load_settings(["topics.identity=topic"], environment={}, with_default_file=False)
    noted = {f"{REQUESTS}.ann": "id", f"{REQUESTS}.bob": "id"}
    root = storage(Deployment(noted, [f"{REQUESTS}.bob"], {"enforce": 3}))

    (problem,) = assemble(settings, facts(storage_facts=root)).problems

    assert problem.startswith(f"topic {REQUESTS}.ann of a user was deleted")


def test_the_topics_of_users_replace_the_shared_one():
    settings = load_settings(["topics.identity=topic"], environment={}, with_default_file=False)
    of_ann = f"{REQUESTS}.ann"
    bounds = {"first": {(of_ann, 0): 0}, "end": {(of_ann, 0): 9, (REQUESTS, 0): 100}, "overdue": {}}
    read = storage(enforce=checkpoint("enforce", 3, positions={(of_ann, 0): 7}))

    status = assemble(settings, facts(cluster({of_ann: topic(of_ann, 2)}, **bounds), read))

    assert [row.name for row in status.topics if row.kind == "requests"] == [of_ann]
    assert (query(status, "enforce").reads, query(status, "enforce").lag) == ([of_ann], 2)
    assert status.ok


@pytest.mark.parametrize(
    ("lease", "endpoints", "running"),
    [
        ({}, [], (True, "its lease")),
        ({"ended": True}, [], (False, "its lease")),
        ({"program": NOBODY, "jvm": NOBODY}, [], (False, "its lease")),
        ({"machine": "another"}, [], (None, None)),
        (None, [], (None, None)),
        (None, [EndpointStatus("h:1", ready=True, jobs=["enforce"])], (True, "metrics at h:1")),
    ],
)
def test_a_lease_of_this_machine_or_an_endpoint_tells_whether_a_query_runs(settings, lease, endpoints, running):
    holder = None if lease is None else structs.replace(Holder.here(os.getpid(), None), host="node-3", **lease)
    stored = storage(enforce=checkpoint("enforce", 3, holder=holder))
    status = assemble(settings, facts(storage_facts=stored, endpoints=endpoints))
    assert [(row.running, row.running_by) for row in status.queries] == [running, (None, None)]
    holds = holder is not None and running[0] is not False
    active = (f"process {os.getpid()} on node-3", holder.started_at) if holds else (None, None)
    assert (query(status, "enforce").active, query(status, "enforce").active_since) == active


@pytest.mark.parametrize(("age_ms", "running"), [(31_000, True), (95_000, False)])
def test_an_applier_runs_if_it_has_recently_stored_its_position(settings, age_ms, running):
    decisions = "mutation-decisions"
    bounds = {"first": {(decisions, 0): 0}, "end": {(decisions, 0): 9}, "overdue": {(decisions, 0): 9}}
    applied = AppliedFacts({0: AppliedOffset(4, 4)}, NOW - age_ms)
    read = storage(audit=checkpoint("audit", 1, positions={(decisions, 0): 9}))

    status = assemble(settings, facts(cluster(applied=applied, **bounds), read))

    assert (query(status, "applier").running, query(status, "applier").lag) == (running, 5)
    assert [problem.startswith("applier: 5 decisions have waited") for problem in status.problems] == [True]


@pytest.fixture
def spark_storage(tmp_path):
    """Return settings of a storage root as Spark leaves it."""
    with tarfile.open(CHECKOUT / "tests" / "upgrades" / "state-v3.tar.gz") as left:
        left.extractall(tmp_path, filter="data")
    return load_settings([f"storage.root={tmp_path}"], environment={}, with_default_file=False)


def test_checkpoints_and_tables_are_read_without_a_jvm(spark_storage):
    read = read_storage(spark_storage)

    enforce, audit = read.checkpoints["enforce"], read.checkpoints["audit"]
    assert (enforce.exists, enforce.damage, enforce.open_batch) == (True, None, None)
    assert enforce.last_batch == BatchStatus(1, 1_795_298_933_267)
    assert enforce.positions == {("frozen-3-requests", 0): 7, ("frozen-3-requests", 1): 0}
    assert audit.last_batch.number == 1
    decisions = read.tables["decisions"]
    assert (decisions.version, decisions.schema_version, decisions.rows, decisions.files) == (2, 4, 6, 2)
    assert decisions.committed_at == 1_795_298_937_746
    assert decisions.maintained_at == 1_795_298_920_089  # its creation


def test_a_batch_that_is_not_finished_is_open(spark_storage, tmp_path):
    (tmp_path / "checkpoints" / "enforce" / "v3" / "commits" / "1").unlink()

    enforce = read_storage(spark_storage).checkpoints["enforce"]

    assert (enforce.last_batch.number, enforce.open_batch) == (0, BatchStatus(1, 1_795_298_933_267))
    assert enforce.positions == {("frozen-3-requests", 0): 4, ("frozen-3-requests", 1): 0}


def test_a_folder_with_a_foreign_table_is_reported(spark_storage, tmp_path):
    log = tmp_path / "tables" / "decisions" / "_delta_log" / "00000000000000000000.json"
    log.write_text(log.read_text().replace("mutationQuota.schemaVersion", "another"))

    decisions = read_storage(spark_storage).tables["decisions"]

    assert "it has no mutationQuota.schemaVersion" in decisions.error


def test_an_endpoint_reports_its_jobs_and_their_readiness():
    settings = load_settings([f"metrics.port={free_port()}"], environment={}, with_default_file=False)
    address = f"127.0.0.1:{settings.metrics.port}"
    stats = ApplierStats(looped_at=time.monotonic())
    with ServiceEndpoint(settings.metrics, "applier") as endpoint:
        starting = read_endpoint(address)
        with endpoint.following(settings, ApplierMetrics(settings, stats), LoopHealth(stats)):
            running = read_endpoint(address.replace("127.0.0.1", "0.0.0.0"))  # noqa: S104 as a job may listen
    stopped = read_endpoint(address)

    assert (starting.jobs, starting.ready, starting.error) == ([], False, None)
    assert starting.reason == "it is starting"
    assert (running.jobs, running.ready, running.error) == (["applier"], True, None)
    assert (stopped.jobs, stopped.ready) == (None, None)
    assert stopped.error == "Connection refused"


def test_a_part_that_does_not_answer_does_not_hold_up_the_others(settings, monkeypatch):
    answer = threading.Event()
    monkeypatch.setattr(assembly, "read_cluster_facts", lambda _: answer.wait() and cluster())
    monkeypatch.setattr(assembly, "read_storage", lambda _: storage())
    try:
        status = assembly.read_status(settings, [], 0.2)
    finally:
        answer.set()

    assert status.kafka.error == "Kafka at 127.0.0.1:9092 does not respond within 0.2 s"
    assert {table.name for table in status.tables} == {"decisions", "dead_letters", "quota_changes"}


@pytest.mark.parametrize(("exists", "expected"), [(True, [CHANGE]), (False, [])])
def test_scheduled_changes_are_read_if_there_is_a_quota_topic(settings, monkeypatch, exists, expected):
    """A principal that may not read it has the same problems as before: none."""
    topics = {} if exists else {"mutation-quotas": None}
    monkeypatch.setattr(assembly, "read_cluster_facts", lambda _: cluster(topics))
    monkeypatch.setattr(assembly, "read_storage", lambda _: storage())
    monkeypatch.setattr(assembly, "read_quota_facts", lambda _: QuotaLogFacts([CHANGE]))
    assert assembly.read_status(settings, [], 30).scheduled == expected
    monkeypatch.setattr(assembly, "read_quota_facts", lambda _: fail(ClusterError("not authorized")))
    if exists:
        status = assembly.read_status(settings, [], 30)
        assert (status.ok, status.scheduled) == (True, None)


@pytest.mark.parametrize(("days", "problems"), [(None, 0), (1, 0), (2, 0), (2.1, 1), (90, 1)])
def test_metadata_of_the_cluster_that_nobody_publishes_any_more_are_a_problem(settings, days, problems):
    published_at = None if days is None else NOW - round(days * 86_400_000)
    quotas = QuotaLogFacts((), CallbackStatus("our.Callback", published_at))
    status = assemble(settings, replace(facts(), quotas=quotas))
    assert status.callback == quotas.callback
    assert len(status.problems) == problems
    for problem in status.problems:
        assert problem.startswith("the callback our.Callback has the cluster's metadata of 2026-")
        assert problem.endswith("run callback publish-metadata about every hour")


def fail(error):
    raise error


def test_the_errors_of_all_parts_are_reported(settings, monkeypatch):
    monkeypatch.setattr(assembly, "read_cluster_facts", lambda _: fail(ClusterError("cannot reach Kafka")))
    monkeypatch.setattr(assembly, "read_storage", lambda _: fail(ValueError("odd")))

    status = assembly.read_status(settings, ["127.0.0.1:1"], 5)

    assert status.problems[:2] == ["cannot reach Kafka", "the storage root /srv/quota: unexpected ValueError: odd"]
    assert status.problems[2].startswith("metrics at 127.0.0.1:1: ")
