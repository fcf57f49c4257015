"""The programs as a person starts and ends them."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from jobs.metrics.definitions import APPLIED, REOPENED
from jobs.sandbox.broker import free_port, is_listening
from jobs.storage.deployment import claim_storage
from jobs.storage.files import Files
from quota.errors import MutationQuotaError
from quota.kafka.quotas.writer import write_record
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from tests.support.checkout import CHECKOUT
from tests.support.deployment import as_options
from tests.support.factories import request_json
from tests.support.monitoring import METRICS
from tests.support.operator import HARDLY_ANY
from tests.support.programs import JVM_OPTIONS, child_processes
from tests.support.topics import produce
from tests.support.waiting import until

DEADLINE_SECONDS = 240


@pytest.fixture
def program(tmp_path):
    """Start the program in a separate folder; a process that is left at the end is killed, and fails the test."""
    started = []

    def _start(*args):
        command = [sys.executable, "-u", "-m", "jobs", *args]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        started.append(process)
        return process

    yield _start
    for process in started:
        with process:  # closes its output
            process.kill()


def read_until(process, pattern):
    """Read what a program prints up to a line with `pattern`, and return it."""
    watchdog = threading.Timer(DEADLINE_SECONDS, process.kill)
    watchdog.start()
    lines = []
    for line in process.stdout:
        lines.append(line)
        if re.search(pattern, line):
            watchdog.cancel()
            return lines
    return pytest.fail(f"no {pattern} in {''.join(lines)}")


def java_processes(folder):
    """Processes of Java that have to do with a folder."""
    found = subprocess.run(["pgrep", "-f", f"java.*{folder}"], capture_output=True, text=True, check=False)
    return found.stdout.split()


def without_timing(text):
    """Return the words of each line, without the digits of times and of tokens, and without rules and empty lines."""
    return [line.split() for line in re.sub(r"─+|-?\d+\.\d+", "N", text).splitlines() if line.strip()]


def test_the_demo_ends_by_itself_as_the_readme_shows(program):
    process = program("demo")
    output, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0, output
    (shown,) = re.findall(
        r"`make demo` ends with:\n\n```text\n(.*?)```", (CHECKOUT / "README.md").read_text(), re.DOTALL
    )
    assert "all results match KIP-599" in shown
    expected = without_timing(shown)
    # Rows are in the order of their timestamps, and the broker may stamp the two users' requests in any order.
    assert sorted(without_timing(output)[-len(expected) :]) == sorted(expected)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_broker_reports_that_it_is_ready_and_leaves_no_process(program, tmp_path, how):
    process = program("broker", "--port", "0", "--data", str(tmp_path / "data"))
    read_until(process, r"^ready 127\.0\.0\.1:\d+$")
    assert java_processes(tmp_path)
    process.send_signal(how)
    assert process.wait(DEADLINE_SECONDS) == 0
    assert not java_processes(tmp_path)


@pytest.mark.parametrize("begun", ["server.properties", "broker.out"])  # its data are prepared, it is started
def test_a_broker_that_is_interrupted_before_it_is_ready_exits_with_130_and_can_be_started_again(
    program, tmp_path, begun
):
    args = ("broker", "--port", "0", "--data", str(tmp_path / "data"))
    process = program(*args)
    until((tmp_path / "data" / begun).exists, poll_seconds=0.02)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert (process.returncode, output) == (130, "")
    until(lambda: not java_processes(tmp_path))  # the kernel kills it with its parent
    again = program(*args)
    read_until(again, r"^ready ")
    again.send_signal(signal.SIGINT)
    assert again.wait(DEADLINE_SECONDS) == 0


def test_the_whole_run_decides_and_ends_cleanly(program, tmp_path):
    """The root is the default one, a folder in the working directory."""
    process = program("run", "--set", "audit.trigger_seconds=2")
    read_until(process, r"mutations: [1-9][\d,]* admitted")
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not list((tmp_path / ".data" / "tables" / "decisions").glob("date=*/*.parquet")):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_SECONDS) == 0
    assert not java_processes(tmp_path)


def jvm_of(process):
    """Return the id of a job's JVM."""
    (jvm,) = [each for each in child_processes(process.pid) if b"java" in Path(f"/proc/{each}/cmdline").read_bytes()]
    return jvm


def test_a_job_whose_jvm_ends_says_so_in_one_line(program, deployment):
    """The JVM is killed as if its heap was too small, or the system needed the memory."""
    process = program("enforce", *as_options(deployment), "--set", f"storage.root={deployment.storage.root}")
    read_until(process, "running: enforce")
    os.kill(jvm_of(process), signal.SIGKILL)
    output, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 1
    last = output.splitlines()[-1]
    assert last.startswith(
        "mutation-quota: Spark's JVM has exited; if the lines before this one show that it ran out of memory"
    )
    assert "raise spark.driver_memory" in last


def test_a_job_that_logs_as_json_writes_nothing_else_from_its_start_to_a_crash(program, deployment):
    """A worker skips an invalid record of the quota topic; then the JVM is killed, and PySpark prints a trace."""
    prepare_topics(deployment)
    produce(deployment, deployment.topics.quotas, b"no json")
    produce(deployment, deployment.topics.requests, request_json(1))
    options = ("--set", f"storage.root={deployment.storage.root}", "--set", "logging.format=json")
    process = program("enforce", *as_options(deployment), *options)
    lines = read_until(process, '"batch":')
    os.kill(jvm_of(process), signal.SIGKILL)
    output, _ = process.communicate(timeout=DEADLINE_SECONDS)
    events = [json.loads(each) for each in (*lines, *output.splitlines())]
    of_worker, last = events[len(lines) - 1], events[-1]
    assert (of_worker["service"], of_worker["query"], of_worker["batch"]) == ("enforce", "enforce", 0)
    assert of_worker["message"].startswith("skipped an invalid quota")
    assert last["message"].startswith(
        "Spark's JVM has exited; if the lines before this one show that it ran out of memory"
    )
    assert (last["level"], last["error"]) == ("ERROR", "MutationQuotaError")


@pytest.mark.nightly
def test_a_job_writes_a_class_archive_when_it_is_stopped_and_starts_with_it_the_next_time(
    program, deployment, tmp_path, monkeypatch
):
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", JVM_OPTIONS)  # without the archive of the tests
    archives = tmp_path / "class archives"
    options = (*as_options(deployment), "--set", f"storage.root={deployment.storage.root}")
    for mapped in (False, True):
        process = program("enforce", *options, "--set", f"spark.class_archives={archives}")
        read_until(process, "running: enforce")
        assert (str(archives) in Path(f"/proc/{jvm_of(process)}/maps").read_text()) == mapped
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_SECONDS) == 0
        (archive,) = archives.glob("enforce-*.jsa")
        assert list(archives.iterdir()) == [archive]


def test_a_running_job_serves_metrics_until_it_is_stopped(program, deployment):
    """60 of alice's 100 mutations are charged twice, and then she is refused."""
    prepare_topics(deployment)
    write_record(deployment, QuotaRecord(QuotaEntity("alice"), HARDLY_ANY, controller_mutation_burst=100.0))
    port, topics = free_port(), deployment.topics
    options = ("--set", f"metrics.port={port}", "--set", "enforce.with_audit=true", "--set", "spark.master=local[2]")
    process = program("enforce", *as_options(deployment), *options)
    read_until(process, r"^running: ")
    until(lambda: samples(port).get(("mutation_quota_dead_letters_total",)) == 0)
    produce(deployment, topics.requests, *[request_json(60)] * 3, b"no json")

    def served():
        found = samples(port)
        decided = found["mutation_quota_decision_latency_seconds_count",] == 3
        waiting = [found.get(("mutation_quota_query_lag_records", ("query", name)), 1) for name in ("enforce", "audit")]
        return found if decided and found["mutation_quota_dead_letters_total",] and not any(waiting) else None

    found = until(served)
    alice = (("client_id", ""), ("tags", ""), ("user", "alice"))
    assert round(found["kafka_server_controllermutation_tokens", *alice], 3) == -20
    assert found["kafka_server_controllermutation_throttle_time", *alice] == 2**31 - 1
    assert found["mutation_quota_tenant_burst", *alice] == 100
    assert found["mutation_quota_mutations_total", ("outcome", "admitted")] == 120
    assert found["mutation_quota_mutations_total", ("outcome", "refused")] == 60
    assert found["mutation_quota_quota_records_total",] == 1
    assert found["mutation_quota_state_rows", ("query", "enforce")] == 1
    assert found["mutation_quota_query_batch_seconds", ("phase", "triggerExecution"), ("query", "audit")] > 0
    assert found["mutation_quota_metrics_failures_total",] == 0
    names = {metric.name for metric in METRICS} - {APPLIED.name, REOPENED.name}
    others = tuple(f"mutation_quota_{program}_" for program in ("gateway", "observed", "push"))
    of_the_job = {name for name in names if not name.startswith(others)}
    assert {name.removesuffix("_count") for name, *_ in found} >= of_the_job
    with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=30) as answer:
        assert answer.status == 200

    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_SECONDS) == 0
    assert not is_listening(port)


def samples(port):
    """Return the served samples, by name and labels."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
        families = list(text_string_to_metric_families(page.read().decode()))
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in families for sample in family.samples
    }


def test_a_storage_root_belongs_to_its_topics(spark, deployment):
    """Checkpoints and tables of another log of the same name would lose requests."""
    files = Files(spark, deployment)
    claim_storage(files, deployment, {"requests": "A"})
    claim_storage(files, deployment, {"requests": "A", "decisions": "B"})
    claim_storage(files, deployment, {"decisions": "B"})
    with pytest.raises(MutationQuotaError, match=r"topic decisions is not the topic that .* belongs to"):
        claim_storage(files, deployment, {"requests": "A", "decisions": "C"})


def test_a_storage_root_is_claimed_atomically(spark, deployment, tmp_path):
    """A kill in between must leave what was there, for the next start to read: the file is replaced, not rewritten."""
    files = Files(spark, deployment)
    claim_storage(files, deployment, {"requests": "A"})
    claimed, first = tmp_path / "deployment.json", tmp_path / "first.json"
    first.hardlink_to(claimed)
    before = first.read_bytes()
    claim_storage(files, deployment, {"decisions": "B"})
    assert first.read_bytes() == before
    assert json.loads(claimed.read_text())["topics"] == {"requests": "A", "decisions": "B"}
