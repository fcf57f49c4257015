"""The commands that show what there is, on a real broker."""

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from jobs.audit.query import start_audit
from jobs.enforce.query import start_enforce
from jobs.storage.run import Run
from quota.kafka.topics.preparation import prepare_topics
from tests.support.clients import QUIET
from tests.support.deployment import as_options
from tests.support.factories import request_json
from tests.support.programs import run, running_applier
from tests.support.topics import produce
from tests.support.waiting import finish, until

UNREACHABLE = "127.0.0.1:9"
QUOTAS = """\
quotas:
- entity: {user: alice}
  controller_mutation_rate: 5
- entity: {client-id: app}
  controller_mutation_rate: 2
"""


@pytest.fixture
def status(deployment):
    """Return a function that runs `status`, and returns its exit code and its document."""

    def _status(*args):
        root = ["--set", f"storage.root={deployment.storage.root}"]
        done = run(*as_options(deployment), *root, "status", "--output", "json", *args)
        assert done.returncode in {0, 1}, done.stderr
        return done.returncode, json.loads(done.stdout)

    return _status


def rows(document, part):
    return {each["name"]: each for each in document[part]}


def test_a_deployment_that_never_started_has_no_topics_and_no_checkpoint(deployment, status):
    exit_code, found = status()

    topics = rows(found, "topics")
    assert exit_code == 1
    assert topics[deployment.topics.requests]["exists"] is False
    assert found["problems"][0].startswith(f"topic {deployment.topics.requests} is missing")
    assert found["problems"][-1].startswith("enforce has not run on")
    assert len(found["kafka"]["brokers"]) == 1


def test_there_are_no_problems_once_the_jobs_have_read_everything(spark, deployment, status):
    prepare_topics(deployment)
    names = deployment.topics
    produce(deployment, names.requests, request_json(1), request_json(2))
    finish(start_enforce(Run.on(spark, deployment), once=True))
    finish(start_audit(Run.on(spark, deployment), once=True))

    exit_code, found = status()

    assert (exit_code, found["problems"]) == (0, [])
    topic = rows(found, "topics")[names.requests]
    assert (topic["partition_count"], topic["timestamp_type"], topic["differences"]) == (2, "LogAppendTime", [])
    queries, tables = rows(found, "queries"), rows(found, "tables")
    read = {(each["partition"], each["position"], each["end"]) for each in queries["enforce"]["partitions"]}
    assert read == {(0, 2, 2), (1, 0, 0)}
    assert (queries["enforce"]["lag"], queries["audit"]["lag"]) == (0, 0)
    assert tables["decisions"]["rows"] == 2

    produce(deployment, names.requests, request_json(3), partition=1)
    partitions = rows(status()[1], "queries")["enforce"]["partitions"]
    assert [(each["partition"], each["lag"]) for each in partitions] == [(0, 0), (1, 1)]


def test_waiting_records_are_counted_from_the_checkpoint_alone(deployment, status, tmp_path):
    prepare_topics(deployment)
    requests = deployment.topics.requests
    produce(deployment, requests, *(request_json(1) for _ in range(5)))
    write_checkpoint(tmp_path, 3, {requests: {"0": 2, "1": 0}})

    _, found = status()

    enforce = rows(found, "queries")["enforce"]
    assert (enforce["lag"], enforce["last_batch"]) == (3, {"number": 0, "started_at": 1_795_000_000_000})
    assert enforce["open_batch"] is None


def test_a_running_applier_is_detected_by_its_position(deployment, status):
    prepare_topics(deployment)
    with running_applier(deployment):
        until(lambda: "applier" in rows(status()[1], "queries"))
        found = rows(status()[1], "queries")["applier"]

    assert (found["running"], found["running_by"], found["lag"]) == (True, "the time of its position", 0)


def test_without_kafka_the_storage_is_reported(status, tmp_path):
    write_checkpoint(tmp_path, 3, {"requests": {"0": 2}})

    exit_code, found = status("--bootstrap-server", UNREACHABLE)

    assert exit_code == 1
    assert found["problems"][0].startswith(f"cannot reach Kafka at {UNREACHABLE}")
    assert rows(found, "queries")["enforce"]["last_batch"]["number"] == 0
    assert rows(found, "queries")["enforce"]["lag"] is None


def test_without_the_storage_the_topics_are_reported(deployment, status):
    prepare_topics(deployment)
    exit_code, found = status("--set", "storage.root=nope://x")

    assert exit_code == 1
    assert "Unknown scheme: nope" in found["storage"]["error"]
    assert rows(found, "topics")[deployment.topics.quotas]["partition_count"] == 1


def write_checkpoint(root: Path, version, positions):
    """Write the files of a checkpoint of enforce whose first batch is finished."""
    folder = root / "checkpoints" / "enforce" / f"v{version}"
    head = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795000000000,"conf":{}}\n'
    files = {"metadata": '{"id":"an id"}', "offsets/0": head + json.dumps(positions), "commits/0": "v1\n{}"}
    for name, text in {**files, "state/0": ""}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_a_dry_run_shows_what_apply_would_change_and_changes_nothing(command, tmp_path):
    command("quotas", "alter", "--user", "alice", "--add-config", "controller_mutation_rate=1")
    (tmp_path / "q.yaml").write_text(QUOTAS)

    for _ in range(2):
        printed = command("quotas", "apply", "q.yaml", "--dry-run", exit_code=3)
        assert printed.splitlines() == [
            "+ client-id 'app': controller_mutation_rate=2.0",
            "~ user-principal 'alice': controller_mutation_rate=1.0 -> controller_mutation_rate=5.0",
            "2 changes would be made: 1 added, 1 changed.",
        ]
    plan = command("quotas", "apply", "q.yaml", "--dry-run", "--output", "json", exit_code=3)
    assert not plan["applied"]
    assert [each["entity"] for each in plan["changes"]] == [{"client-id": "app"}, {"user": "alice"}]
    assert (plan["changes"][0]["before"], plan["changes"][1]["before"]["controller_mutation_rate"]) == (
        None,
        1.0,
    )

    command("quotas", "apply", "q.yaml", "--yes")
    assert command("quotas", "apply", "q.yaml", "--dry-run") == "Nothing to change.\n"
    assert command("quotas", "apply", "q.yaml", "--dry-run", "--output", "json") == {"applied": False, "changes": []}


def test_a_dry_run_reads_json_lines_and_an_error_has_a_different_exit_code(command, tmp_path):
    command("quotas", "alter", "--user", "alice", "--add-config", "controller_mutation_rate=1")
    (tmp_path / "q.jsonl").write_text('{"entity": {"user": "alice"}, "controller_mutation_rate": 1}\n')

    dry_run = ("quotas", "apply", "--dry-run")
    assert command(*dry_run, "q.jsonl") == "Nothing to change.\n"
    assert "cannot read the quotas" in command(*dry_run, "q.jsonl", "--bootstrap-server", UNREACHABLE, exit_code=1)
    assert "No such file" in command(*dry_run, "none.yaml", exit_code=2)


def test_topics_are_listed_with_their_partitions(deployment, command):
    name = deployment.topics.requests.replace("requests", "orders")
    admin = AdminClient({**QUIET, "bootstrap.servers": deployment.kafka.bootstrap_servers})
    admin.create_topics([NewTopic(name, 60, 1, config={"retention.ms": "1000"})])[name].result(30)
    until(lambda: name in admin.list_topics(timeout=10).topics)

    assert command("topics", "list", "--topic", f"{name},none", "--output", "json") == {
        "topics": [
            {"name": name, "partition_count": 60, "replication_factor": 1, "leaderless": 0, "under_replicated": 0}
        ]
    }
    assert command("topics", "list", "--topic", name).splitlines()[1].split() == [name, "60", "1", "ok"]
    assert "no topic matches none" in command("topics", "list", "--topic", "none", exit_code=4)
    assert "not a regular expression" in command("topics", "list", "--topic", "(", exit_code=2)
