"""KIP-257 through Kafka, Spark and Delta."""

import re

import pytest
from confluent_kafka.admin import NewTopic

from jobs.audit.query import start_audit
from jobs.enforce.query import start_enforce
from jobs.storage.files import DeploymentSession
from quota.callbacks.groups import GroupQuotaCallback
from quota.callbacks.proportional import PartitionProportionalCallback
from quota.errors import ClusterError
from quota.kafka.quotas.log import read_log
from quota.kafka.quotas.writer import publish_cluster, write_record
from quota.kafka.topics.preparation import prepare_topics
from quota.kafka.topics.topic_admin import read_cluster
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Cluster, ClusterRecord, QuotaRecord
from quota.records.record import MAX_EPOCH_MS
from tests.support.callbacks import Failing
from tests.support.checkout import CHECKOUT
from tests.support.deployment import with_sections
from tests.support.factories import request_json
from tests.support.tables import read_table
from tests.support.topics import DEADLINE_SECONDS, admin_of, consume, produce
from tests.support.waiting import finish, until

CHECKOUT = str(CHECKOUT)


def name_of(callback):
    return f"{callback.__module__}.{callback.__qualname__}"


def with_callback(deployment, callback, **configs):
    """Return the deployment with a callback, and the options that configure it on the command line."""
    quota = {"callback_class": name_of(callback), "callback_configs": configs}
    settings = with_sections(deployment, quota=quota)
    options = ["--set", f"quota.callback_class={quota['callback_class']}"]
    for name, value in configs.items():
        options += ["--set", f"quota.callback_configs.{name}={value}"]
    return settings, options


def test_a_group_shares_one_bucket_and_changes_while_the_job_runs(spark, deployment, command):
    """Two users and a client-id of a group of rate 10, so a burst of 110; then a rate of 1 by a record of the log."""
    settings, options = with_callback(
        deployment,
        GroupQuotaCallback,
        **{
            "group.pay.users": "alice;bob",
            "group.pay.clients": "etl",
            "group.pay.controller_mutation_rate": "10",
        },
    )
    prepare_topics(settings)
    write_record(settings, QuotaRecord(QuotaEntity(None), 3.0))
    topics = settings.topics
    first = [("alice", "x"), ("bob", "y"), ("carol", "etl"), ("carol", "z")]
    query = start_enforce(DeploymentSession.on(spark, settings))
    try:
        produce(settings, topics.requests, *(request_json(50, user=user, client_id=client) for user, client in first))
        decided = [decision for _, decision in consume(settings, topics.decisions, 4)]
        alter = ("callback", "alter", *options, "--comment", "less")
        assert "group.pay: Expected `float` > 0" in command(
            *alter, "--add-config", "group.pay.controller_mutation_rate=0", exit_code=2
        )
        assert "is not allowed by the settings" in command(*alter, "--class", "os.system", exit_code=2)
        command(*alter, "--add-config", "group.pay.controller_mutation_rate=1")
        produce(settings, topics.requests, request_json(0, user="bob", client_id="x"))
        after = consume(settings, topics.decisions, 5)[-1][1]
    finally:
        query.stop()
    grouped = {decision["user"] + "/" + decision["client_id"]: decision for decision in decided}
    assert {name: decision["more_tags"] for name, decision in grouped.items()} == {
        "alice/x": {"group": "pay"},
        "bob/y": {"group": "pay"},
        "carol/etl": {"group": "pay"},
        "carol/z": {},
    }
    assert (grouped["alice/x"]["tokens_before"], grouped["alice/x"]["burst"]) == (110.0, 110.0)
    assert -50 <= grouped["carol/etl"]["tokens"] < 10
    assert grouped["carol/z"]["quota_entity"] == {"user": None}
    assert {decision["callback"] for decision in decided} == {name_of(GroupQuotaCallback)}
    assert (after["quota"], after["burst"], after["more_tags"]) == (1.0, 11.0, {"group": "pay"})

    quota = command("quotas", "resolve", *options, "--user", "alice", "--output", "json")
    assert (quota["bucket"], quota["callback"], quota["burst"]) == ({"group": "pay"}, name_of(GroupQuotaCallback), 11.0)
    assert "group 'pay', shared by all who have these tags" in command("quotas", "resolve", *options, "--client", "etl")
    assert (
        command("callback", "describe", *options, "--output", "json")["callback"]["configs"][
            "group.pay.controller_mutation_rate"
        ]
        == "1"
    )
    history = command("quotas", "history", *options)
    assert re.search(r"  ann  +-  +callback: quota\.callbacks\.groups\.GroupQuotaCallback", history)

    command("buckets", "reset", "--yes", *options, "--tag", "group=pay")
    assert command("quotas", "resolve", *options, "--user", "bob", "--output", "json")["reset_at"] is not None
    assert "expected NAME=VALUE" in command("buckets", "reset", "--yes", *options, "--tag", "pay", exit_code=2)

    finish(start_audit(DeploymentSession.on(spark, settings), once=True))
    rows = {row["user"] + "/" + row["client_id"]: row for row in read_table(settings, "decisions")}
    assert dict(rows["alice/x"]["more_tags"]) == {"group": "pay"}
    (change,) = [row for row in read_table(settings, "quota_changes") if row["kind"] == "callback"]
    assert (change["altered_by"], dict(change["callback_configs"])["group.pay.users"]) == ("ann", "alice;bob")


def all_led(settings, names):
    """Return whether the broker knows topics and their leaders."""
    topics = read_cluster(settings.kafka.connection, 10).topics
    return all(None not in topics.get(name, [None]) for name in names)


def test_quotas_follow_the_partitions_that_tenants_own(spark, deployment, command):
    """alice owns 6 partitions and bob 2, on the real broker; the quota of all is 100."""
    settings, options = with_callback(deployment, PartitionProportionalCallback, **{"minimum.share": "0.05"})
    prepare_topics(settings)
    write_record(settings, QuotaRecord(QuotaEntity(None), 100.0))
    produce(settings, settings.topics.requests, request_json(1, user="alice"))
    admin = admin_of(settings)
    names = {"alice.orders": 6, "bob.clicks": 2}
    for future in admin.create_topics([NewTopic(name, count, 1) for name, count in names.items()]).values():
        future.result(DEADLINE_SECONDS)
    read_log(settings)  # the first consumer of a broker makes it create a topic of its own
    until(lambda: all_led(settings, [*names, "__consumer_offsets"]))
    try:
        published = command("callback", "publish-metadata", *options, "--output", "json")
        assert published["applied"]
        assert "Nothing has changed" in command("callback", "publish-metadata", *options)
    finally:
        for future in admin.delete_topics(list(names)).values():
            future.result(DEADLINE_SECONDS)
    produce(settings, settings.topics.requests, *(request_json(1, user=user) for user in ("alice", "bob", "carol")))
    finish(start_enforce(DeploymentSession.on(spark, settings), once=True))
    decided = [decision for _, decision in consume(settings, settings.topics.decisions, 4)]
    ordered = sorted(decided, key=lambda decision: decision["source"]["offset"])
    assert [(decision["user"], decision["quota"]) for decision in ordered] == [
        ("alice", 100.0),
        ("alice", 75.0),
        ("bob", 25.0),
        ("carol", 5.0),
    ]
    finish(start_audit(DeploymentSession.on(spark, settings), once=True))
    (change,) = [row for row in read_table(settings, "quota_changes") if row["kind"] == "cluster"]
    assert '"bob.clicks":[' in change["cluster"]


def test_an_error_of_a_callback_is_counted_and_does_not_stop_the_job(spark, deployment):
    """Requests that it fails on are dead letters with the reason; others, and those after it is well, are decided."""
    settings, _ = with_callback(deployment, Failing)
    prepare_topics(settings)
    topics = settings.topics
    write_record(settings, QuotaRecord(QuotaEntity(None), 50.0))
    write_record(settings, QuotaRecord(QuotaEntity("alice"), 1.0))
    query = start_enforce(DeploymentSession.on(spark, settings))
    try:
        produce(settings, topics.requests, request_json(1), request_json(1), request_json(1, user="bob"), b"no request")
        letters = [letter["error"] for _, letter in consume(settings, topics.dead_letters, 3)]
        write_record(settings, QuotaRecord(QuotaEntity("alice"), 2.0))
        produce(settings, topics.requests, request_json(1))
        decided = [decision for _, decision in consume(settings, topics.decisions, 2)]
    finally:
        query.stop()
    reason = "callback: tests.support.callbacks.Failing.update_quota raised ValueError: 1.0 is too little"
    assert sorted(letters)[:2] == [reason, reason]
    assert {(decision["user"], decision["quota"]) for decision in decided} == {("bob", 50.0), ("alice", 2.0)}


def test_a_callback_that_cannot_work_is_named_before_the_job_starts(deployment, command, program, monkeypatch):
    _, options = with_callback(deployment, Failing, bad="1")
    assert "callback tests.support.callbacks.Failing: ModuleNotFoundError" in program("enforce", *options, exit_code=2)
    monkeypatch.setenv("PYTHONPATH", CHECKOUT)
    assert "callback tests.support.callbacks.Failing: ValueError: bad is bad" in command(
        "enforce", *options, exit_code=2
    )


def test_callbacks_are_scheduled_and_cancelled(deployment, command):
    """What is changed while one is scheduled stays, except what the scheduled one changes."""
    prepare_topics(deployment)
    name = name_of(PartitionProportionalCallback)
    allowed = ["--set", f"quota.callback_classes={name}"]
    later = ("--effective-at", "2100-01-01T00:00:00Z")
    assert f"Callback is {name} minimum.share=0.5 from 2100" in command(
        "callback", "alter", *allowed, "--class", name, "--add-config", "minimum.share=0.5", *later
    )
    described = command("callback", "describe", *allowed)
    assert "Callback is quota.callbacks.default.DefaultQuotaCallback" in described
    assert f"Scheduled: {name} minimum.share=0.5 (from 2100" in described
    assert "no change scheduled for" in command("callback", "cancel", "--effective-at", "+1d", exit_code=4)
    command("callback", "cancel", *allowed, *later)
    assert command("callback", "describe", "--output", "json")["scheduled"] == []
    command("callback", "alter", *allowed, "--class", name)
    command("callback", "alter", *allowed, "--add-config", "minimum.share=0.5", *later)
    command("callback", "alter", *allowed, "--add-config", "minimum.share=0.1")
    (scheduled,) = command("callback", "describe", *allowed, "--output", "json")["scheduled"]
    assert scheduled["callback"] == {"class": name, "configs": {"minimum.share": "0.5"}}
    command("callback", "cancel", *allowed, *later)
    command("callback", "alter", *allowed, "--delete-config", "minimum.share")
    assert "already" in command("callback", "alter", *allowed, "--class", name)
    command("callback", "alter", *allowed, "--reset", "--comment", "enough")
    kinds = [change["kind"] for change in command("quotas", "history", "--output", "json")["changes"]]
    assert kinds == ["callback", "callback_cancel", *["callback"] * 3, "callback_cancel", "callback", "callback"]
    assert "nothing to change: give" in command("callback", "alter", exit_code=2)


def test_an_invalid_cluster_record_is_reported_in_one_line(deployment):
    """The broker rejects the record, or the client does before it is sent."""
    settings, _ = with_callback(deployment, PartitionProportionalCallback)
    prepare_topics(settings)
    fits = Cluster({f"alice.{'x' * 200}{number}": [0] for number in range(20_000)})
    assert publish_cluster(settings, ClusterRecord(fits, altered_by="ann")) is not None
    assert publish_cluster(settings, ClusterRecord(fits, altered_by="ann")) is None
    assert read_log(settings).quotas.resolve("alice", "app", MAX_EPOCH_MS).callback == name_of(
        PartitionProportionalCallback
    )
    too_large = Cluster({f"alice.{'x' * 200}{number}": [0] for number in range(60_000)})
    with pytest.raises(ClusterError, match=r"the change is not set .*Message size too large"):
        publish_cluster(settings, ClusterRecord(too_large, altered_by="ann"))
