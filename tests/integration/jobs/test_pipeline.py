"""Broker, enforce, audit and Delta together."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from jobs.audit.decisions import explain_decision
from jobs.audit.query import start_audit
from jobs.enforce import query
from jobs.enforce.query import start_enforce, warm
from jobs.storage.files import DeploymentSession
from quota.errors import ClusterError, NotFound
from quota.kafka.quotas.writer import write_record
from quota.kafka.topics.preparation import prepare_topics
from quota.kafka.topics.specs import TopicSpec
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from tests.support.deployment import with_sections
from tests.support.factories import request_json
from tests.support.releases import another_release
from tests.support.tables import read_table
from tests.support.topics import DEADLINE_SECONDS, admin_of, consume, open_transaction, produce
from tests.support.waiting import finish

BAD_RECORDS = {
    b"no json": "value: not JSON",
    b"\xff\xfe": "value: not UTF-8",
    b"\x00" * 1_000_000: "value: not JSON",
    b"[" * 900_000: "value: JSON nested deeper",
    request_json(1, operation="TRUNCATE"): "operation: invalid enum value",
    request_json(-1): "topics[0].partitions: expected int >= 0",
    request_json(2**31): "topics[0].partitions: expected int <= 2147483647",
    request_json(): "topics: expected array of length >= 1",
    request_json(1, request_id=""): "request_id: expected str of length >= 1",
    request_json(1, user=7): "user: expected str",
}


def delete_quotas(settings):
    """Delete the records of the quota topic."""
    admin, topic = TopicAdmin(settings.kafka.connection, DEADLINE_SECONDS), settings.topics.quotas
    admin.configure([TopicSpec(topic, 1, {"cleanup.policy": "compact,delete"})])
    ends = [TopicPartition(*partition, end) for partition, end in admin.ends(topic).items()]
    client = admin_of(settings)
    for deleted in client.delete_records(ends).values():
        deleted.result(DEADLINE_SECONDS)


def leave_open(settings):
    """Write to the quota topic during a transaction that stays open."""
    producer = open_transaction(settings, settings.topics.quotas, b"{}")
    produce(settings, settings.topics.quotas, b"{}", b"{}")
    return producer


@pytest.mark.parametrize(
    ("identity", "disturb"),
    [("topic", lambda _: None), ("payload", delete_quotas), ("payload", leave_open)],
    ids=["by topic", "deleted", "transaction"],
)
def test_a_spark_is_warmed_by_requests_of_its_own_and_nothing_is_written(
    spark, deployment, monkeypatch, identity, disturb
):
    start = query._start  # noqa: SLF001 the queries of warming are not returned
    prepare_topics(deployment)
    deployment = with_sections(deployment, topics={"identity": identity})
    topics = deployment.topics
    produce(deployment, topics.requests, request_json(60))
    write_record(deployment, QuotaRecord(QuotaEntity("alice"), 5.0))
    kept = disturb(deployment)
    session = DeploymentSession.on(spark, deployment)
    written = session.topics.ends(topics.quotas)

    queries, changelog = [], spark.conf.get(query._CHANGELOG)  # noqa: SLF001 one name for the property
    monkeypatch.setattr(query, "_start", lambda *given: queries.append(start(*given)) or queries[-1])

    assert warm(session) > 0

    (first, second) = [each.lastProgress for each in queries]
    assert (first["batchId"], second["batchId"]) == (0, 1)  # it has resumed
    assert [each["stateOperators"][0]["numRowsTotal"] for each in (first, second)] == [1, 1]
    assert spark.conf.get(query._CHANGELOG) == changelog  # noqa: SLF001
    assert session.topics.ends(topics.quotas) == written
    assert set(session.topics.offsets([(topics.decisions, 0), (topics.dead_letters, 0)]).values()) == {0}
    del kept  # the producer ends its transaction
    assert not Path(deployment.storage.root, "checkpoints").exists()


def test_every_record_is_a_decision_or_a_dead_letter_and_stored_in_delta_once(spark, deployment):
    """Valid, invalid and null records go through broker, enforce and audit; the tables agree with the topics."""
    prepare_topics(deployment)
    topics = deployment.topics
    write_record(deployment, QuotaRecord(QuotaEntity("alice"), 5.0, altered_by="ann", comment="for the test"))
    produce(deployment, topics.quotas, b'{"entity": {"user": "alice"}, "controller_mutation_rate": -5}')
    produce(deployment, topics.requests, request_json(60), request_json(1, client_id=None), None, *BAD_RECORDS)

    finish(start_enforce(DeploymentSession.on(spark, deployment), once=True))
    decided = consume(deployment, topics.decisions, 2)
    letters = consume(deployment, topics.dead_letters, len(BAD_RECORDS) + 1)

    (first, second) = [decision for _, decision in decided]
    assert {key for key, _ in decided} == {b"alice"}
    assert (first["outcome"], first["tokens"]) == ("ADMITTED", -5.0)
    assert (second["outcome"], second["throttle_time_ms"]) == ("REJECTED", 1000)
    assert second["retry_at"] == second["timestamp"] + 1000
    assert sorted(letter["source"]["offset"] for _, letter in letters) == list(range(2, 3 + len(BAD_RECORDS)))
    by_offset = {letter["source"]["offset"]: letter for _, letter in letters}
    for offset, (value, error) in enumerate(BAD_RECORDS.items(), start=3):
        assert by_offset[offset]["error"].startswith(error)
        assert by_offset[offset]["value"] == ("//4=" if value == b"\xff\xfe" else value.decode())

    for _ in range(2):  # a second time finds nothing new
        finish(start_audit(DeploymentSession.on(spark, deployment), once=True))
    assert {(row["decision_id"], row["outcome"], row["tokens"]) for row in read_table(deployment, "decisions")} == {
        (f"{topics.requests}-0-0", "ADMITTED", -5.0),
        (f"{topics.requests}-0-1", "REJECTED", -5.0),
    }
    dead = read_table(deployment, "dead_letters")
    assert {row["source"]["offset"] for row in dead if row["source"]["topic"] == topics.requests} == set(by_offset)
    (skipped,) = [row for row in dead if row["source"]["topic"] == topics.quotas]
    assert skipped["error"] == "controller_mutation_rate: expected float > 0.0 (value: -5)"
    (change,) = read_table(deployment, "quota_changes")
    assert (change["user"], change["client_id"], change["controller_mutation_rate"]) == ("alice", None, 5.0)
    assert (change["altered_by"], change["comment"]) == ("ann", "for the test")

    why = explain_decision(deployment, f"{topics.requests}-0-1")
    assert (why.decision.bucket_before.tokens, why.recomputed.tokens_before) == (-5.0, -5.0)
    assert (why.recomputed.controller_throttle_ms, why.recomputed.differs) == (1000, [])
    with pytest.raises(NotFound, match="-0-2 is not a decision but a dead letter: value: null"):
        explain_decision(deployment, f"{topics.requests}-0-2")
    with pytest.raises(NotFound, match="-0-99: no such decision in the table; the audit has decisions up to"):
        explain_decision(deployment, f"{topics.requests}-0-99")


def test_a_batch_is_one_task_and_its_decisions_take_a_fraction_of_their_bytes_in_the_topic(
    spark, deployment, base_settings
):
    """Decisions are similar; the broker's file of them is compressed."""
    prepare_topics(deployment)
    topics = deployment.topics
    produce(deployment, topics.requests, *[request_json(1, request_id=f"r-{number}") for number in range(500)])
    query = start_enforce(DeploymentSession.on(spark, deployment), once=True)
    finish(query)
    assert "Exchange" not in query._jsq.explainInternal(False)  # noqa: SLF001 with one state partition, a batch is one task
    json_bytes = sum(len(json.dumps(decision)) for _, decision in consume(deployment, topics.decisions, 500))
    logs = base_settings.storage.local_folder("cluster").glob(f"**/{topics.decisions}-*/*.log")
    assert 0 < sum(log.stat().st_size for log in logs) < json_bytes / 4


def test_a_checkpoint_continues_with_another_release_of_pyspark_and_back(spark, deployment, caplog):
    """The stateful stage then needs pandas: debts that it has written count without it, and the other way round.

    A dead letter of six megabytes is followed by empty rows, which are no answers.
    """
    prepare_topics(deployment)
    topics = deployment.topics
    for user in ("alice", "bob"):
        write_record(deployment, QuotaRecord(QuotaEntity(user), 5.0))
    large = request_json(600, user="alice"), request_json(600, user="bob")
    small = request_json(1, user="alice"), request_json(1, user="bob")
    batches = [large[:1], [small[0], large[1], b"\x00" * 1_000_000], small]
    for batch, release in zip(batches, (nullcontext(), another_release(), nullcontext()), strict=True):
        produce(deployment, topics.requests, *batch)
        with release:
            finish(start_enforce(DeploymentSession.on(spark, deployment), once=True))
    decided = [(decision["user"], decision["outcome"]) for _, decision in consume(deployment, topics.decisions, 5)]
    assert sorted(decided) == sorted(
        [("alice", "ADMITTED"), ("bob", "ADMITTED"), *[("alice", "REJECTED")] * 2, ("bob", "REJECTED")]
    )
    assert len(consume(deployment, topics.dead_letters, 1)) == 1
    assert len([line for line in caplog.messages if line.startswith("PySpark 4.2.0: decisions are the same")]) == 1


def test_missing_topics_are_named_where_they_may_not_be_created(deployment):
    with pytest.raises(ClusterError, match=r"missing topics: .*topics.create=true"):
        prepare_topics(with_sections(deployment, topics={"create": False}))
