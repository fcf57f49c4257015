"""A deployment's state and its problems, derived from the reports of its parts."""

from dataclasses import replace

import pytest

from jobs.status.assembly import Facts, assemble
from jobs.status.cluster_facts import AppliedFacts
from jobs.storage.deployment import Deployment
from quota.kafka.applier.ledger import AppliedOffset
from quota.settings import load_settings
from schemas.documents.status import BatchStatus, EndpointStatus, TableStatus
from tests.unit.jobs.status.conftest import NOW, checkpoint, cluster, facts, storage, topic

REQUESTS = "mutation-requests"


def query(status, name):
    (found,) = [each for each in status.queries if each.name == name]
    return found


def test_a_deployment_whose_jobs_have_read_everything_has_no_problems(settings):
    found = assemble(settings, facts())

    assert (found.ok, found.problems) == (True, [])
    assert [each.name for each in found.queries] == ["enforce", "audit"]


def test_reachable_parts_are_reported_without_kafka(settings):
    found = assemble(settings, Facts(NOW, None, "cannot reach Kafka at k:9092: refused", storage(), None))

    assert found.problems == ["cannot reach Kafka at k:9092: refused"]
    assert {each.exists for each in found.topics} == {None}
    assert query(found, "enforce").last_batch == BatchStatus(7, NOW - 5000)
    assert query(found, "enforce").lag is None
    assert found.tables


def test_reachable_parts_are_reported_without_the_storage(settings):
    found = assemble(settings, Facts(NOW, cluster(), None, None, "/srv/quota cannot be read"))

    assert found.problems == ["/srv/quota cannot be read"]
    assert {each.exists for each in found.topics} == {True}
    assert query(found, "enforce").exists is None


def test_lag_counts_the_records_after_the_position_of_each_partition(settings):
    positions = {(REQUESTS, 0): 40, (REQUESTS, 1): 5}
    bounds = {"first": {(REQUESTS, 0): 0, (REQUESTS, 1): 0}, "end": {(REQUESTS, 0): 50, (REQUESTS, 1): 5}}
    found = assemble(
        settings,
        facts(
            cluster(**bounds, overdue={(REQUESTS, 0): 40}),
            storage(enforce=checkpoint("enforce", 3, positions=positions)),
        ),
    )

    row = query(found, "enforce")
    assert [(each.partition, each.position, each.end, each.lag) for each in row.partitions] == [
        (0, 40, 50, 10),
        (1, 5, 5, 0),
    ]
    assert (row.lag, row.overdue, found.problems) == (10, 0, [])


def test_records_that_wait_for_long_are_a_problem(settings):
    bounds = {"first": {(REQUESTS, 0): 0}, "end": {(REQUESTS, 0): 50}, "overdue": {(REQUESTS, 0): 43}}
    lagging = storage(enforce=checkpoint("enforce", 3, positions={(REQUESTS, 0): 40}))

    found = assemble(settings, facts(cluster(**bounds), lagging))

    assert query(found, "enforce").overdue == 3
    assert found.problems == [
        "enforce: 3 records have waited for more than a minute: check that it is running and fast enough"
    ]


def test_one_waiting_record_is_reported_in_the_singular(settings):
    bounds = {"first": {(REQUESTS, 0): 0}, "end": {(REQUESTS, 0): 50}, "overdue": {(REQUESTS, 0): 41}}
    lagging = storage(enforce=checkpoint("enforce", 3, positions={(REQUESTS, 0): 40}))

    found = assemble(settings, facts(cluster(**bounds), lagging))

    assert found.problems[0].startswith("enforce: 1 record has waited for more than a minute")


def test_a_partition_that_was_added_is_read_from_its_first_record(settings):
    bounds = {"first": {(REQUESTS, 1): 3}, "end": {(REQUESTS, 1): 5}, "overdue": {}}

    found = assemble(settings, facts(cluster(**bounds)))

    assert [(each.position, each.lag, each.lost) for each in query(found, "enforce").partitions] == [(None, 2, 0)]


def test_records_that_were_removed_before_they_were_read_are_a_problem(settings):
    bounds = {"first": {(REQUESTS, 0): 30}, "end": {(REQUESTS, 0): 50}, "overdue": {}}
    lagging = storage(enforce=checkpoint("enforce", 3, positions={(REQUESTS, 0): 10}))

    found = assemble(settings, facts(cluster(**bounds), lagging))

    (partition,) = query(found, "enforce").partitions
    assert (partition.lag, partition.lost) == (20, 20)
    assert found.problems[0].startswith("enforce: 20 records were removed from their topic before it read them")


@pytest.mark.parametrize(
    ("name", "is_problem"), [(REQUESTS, True), ("mutation-quotas", True), ("mutation-results", False)]
)
def test_a_missing_topic_is_a_problem_if_enforce_or_the_audit_needs_it(settings, name, is_problem):
    found = assemble(settings, facts(cluster({name: None})))

    (row,) = [each for each in found.topics if each.name == name]
    assert (row.exists, row.needed) == (False, is_problem)
    assert [f"topic {name} is missing" in each for each in found.problems] == [True] * is_problem


def test_a_topic_that_differs_from_the_jobs_defaults_is_reported_and_not_a_problem(settings):
    grown = {REQUESTS: topic(REQUESTS, 6)}

    found = assemble(settings, facts(cluster(grown, {"mutation-results": {"retention.ms": "1000"}})))

    differences = {
        each.name: [
            (one.config, one.created, one.found) for one in each.differences if one.config != "max.message.bytes"
        ]
        for each in found.topics
    }
    assert differences[REQUESTS] == [("partitions", "2", "6")]
    assert differences["mutation-results"] == [("retention.ms", "604800000", "1000")]
    assert found.ok


def test_a_topic_that_would_be_lost_with_one_of_three_brokers_is_reported_and_not_a_problem(settings):
    found = cluster(configs={REQUESTS: {"unclean.leader.election.enable": "true"}})
    three = replace(found, layout=replace(found.layout, brokers=(1, 2, 3)))

    (row,) = [each for each in assemble(settings, facts(three)).topics if each.name == REQUESTS]

    assert [(one.config, one.created, one.found) for one in row.differences if one.config != "max.message.bytes"] == [
        ("replication.factor", "3", "1")
    ]


def test_a_topic_that_prevents_jobs_from_starting_is_a_problem(settings):
    stamped = {REQUESTS: {"message.timestamp.type": "CreateTime"}}

    (problem,) = assemble(settings, facts(cluster(configs=stamped))).problems

    assert problem.startswith(f"topic {REQUESTS} is stamped by producers")


def test_partitions_without_leader_or_replicas_are_problems(settings):
    broken = {
        REQUESTS: topic(REQUESTS, 2, leader=None, in_sync=()),
        "mutation-decisions": topic("mutation-decisions", 2, in_sync=()),
    }

    found = assemble(settings, facts(cluster(broken)))

    assert [each.split(":")[0] for each in found.problems] == [f"topic {REQUESTS}"] * 2 + ["topic mutation-decisions"]


def test_a_recreated_topic_is_a_problem(settings):
    noted = Deployment(topics={REQUESTS: "another id"}, checkpoints={"enforce": 3})

    (problem,) = assemble(settings, facts(storage_facts=storage(noted))).problems

    assert problem.startswith(f"topic {REQUESTS} is not the topic that /srv/quota belongs to")


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

    found = assemble(settings, facts(cluster({of_ann: topic(of_ann, 2)}, **bounds), read))

    assert [each.name for each in found.topics if each.kind == "requests"] == [of_ann]
    assert (query(found, "enforce").reads, query(found, "enforce").lag) == ([of_ann], 2)
    assert found.ok


@pytest.mark.parametrize(
    ("noted", "problem"),
    [
        ({}, "enforce has not run on /srv/quota"),
        ({"enforce": 2}, "enforce: its buckets have version 2, but the checkpoint checkpoints/enforce/v3"),
    ],
)
def test_an_enforce_without_a_checkpoint_is_a_problem(settings, noted, problem):
    none = checkpoint("enforce", 3, exists=False, last_batch=None, positions=None)

    found = assemble(settings, facts(storage_facts=storage(Deployment(checkpoints=noted), enforce=none)))

    assert [each.startswith(problem) for each in found.problems] == [True]


def test_a_damaged_checkpoint_is_a_problem(settings):
    damaged = checkpoint("audit", 1, damage="offsets/7 is truncated")

    (problem,) = assemble(settings, facts(storage_facts=storage(audit=damaged))).problems

    assert problem.startswith("audit: the checkpoint checkpoints/audit/v1 is incomplete: offsets/7 is truncated")


def test_a_table_that_is_missing_or_cannot_be_read_is_a_problem(settings):
    tables = {
        "decisions": TableStatus("decisions", exists=False),
        "dead_letters": TableStatus("dead_letters", error="it was written by a newer program"),
    }

    found = assemble(settings, facts(storage_facts=storage(tables=tables)))

    assert found.problems[0].startswith("table decisions is missing, and audit has run")
    assert found.problems[1] == "table dead_letters: it was written by a newer program"


@pytest.mark.parametrize(("committed_after", "is_late"), [(47 * 3_600_000, False), (49 * 3_600_000, True)])
def test_a_table_that_is_written_and_not_maintained_is_a_problem(settings, committed_after, is_late):
    """By its last commit and not by the clock: without new records there is no upkeep."""
    table = TableStatus("decisions", exists=True, committed_at=NOW + committed_after, maintained_at=NOW)

    found = assemble(settings, facts(storage_facts=storage(tables={"decisions": table})))

    late = (
        "table decisions was last maintained on 2026-11-21T13:00:00.000Z, although it is written: "
        "see the warnings of audit, and run mutation-quota maintain decisions"
    )
    assert found.problems == ([late] if is_late else [])


def test_an_endpoint_reports_its_running_queries(settings):
    found = assemble(settings, facts(endpoints=[EndpointStatus("h:1", ready=True, jobs=["enforce"])]))

    assert (query(found, "enforce").running, query(found, "enforce").running_by) == (True, "metrics at h:1")
    assert query(found, "audit").running is None


def test_endpoints_that_do_not_answer_or_are_not_ready_are_problems(settings):
    endpoints = [
        EndpointStatus("h:1", error="Connection refused"),
        EndpointStatus("h:2", ready=False, jobs=[], reason="it is starting"),
    ]

    found = assemble(settings, facts(endpoints=endpoints))

    assert [each.split(":1:")[0].split(":2:")[0] for each in found.problems] == ["metrics at h", "metrics at h"]


@pytest.mark.parametrize(("age_ms", "running"), [(31_000, True), (95_000, False)])
def test_an_applier_runs_if_it_has_recently_stored_its_position(settings, age_ms, running):
    decisions = "mutation-decisions"
    bounds = {"first": {(decisions, 0): 0}, "end": {(decisions, 0): 9}, "overdue": {(decisions, 0): 9}}
    applied = AppliedFacts({0: AppliedOffset(4, 4)}, NOW - age_ms)
    read = storage(audit=checkpoint("audit", 1, positions={(decisions, 0): 9}))

    found = assemble(settings, facts(cluster(applied=applied, **bounds), read))

    assert (query(found, "applier").running, query(found, "applier").lag) == (running, 5)
    assert [each.startswith("applier: 5 decisions have waited") for each in found.problems] == [True]
