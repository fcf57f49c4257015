"""The programs as a person starts and ends them."""

import json
import os
import re
import signal
import subprocess
import threading
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from urllib.request import urlopen

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from jobs.background import background
from jobs.metrics.families import METRICS
from jobs.sandbox.broker import free_port, is_listening
from quota.kafka.quotas.writer import write_record
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from tests.integration.jobs.marked import Mark
from tests.support.callbacks import Closing
from tests.support.checkout import CHECKOUT
from tests.support.deployment import as_options, prepared_deployment, set_options
from tests.support.factories import request_json
from tests.support.gateway import running_gateway
from tests.support.monitoring import served_samples
from tests.support.needs import need
from tests.support.operator import HARDLY_ANY, Operator
from tests.support.programs import CLASS_ARCHIVES, OWN_ARCHIVE, child_processes, command_line, command_words, run
from tests.support.requesting import SOME, check_leases_released, check_tokens, prepare_users, requesting
from tests.support.topics import QUIET, consume, consume_all, decisions_of, produce
from tests.support.waiting import until

DEADLINE_SECONDS = 240


@contextmanager
def started(folder, *args, constants=None, **variables):
    """Start the program in a separate folder, with more variables; a process that is left at the end is killed."""
    command = command_line(*args, constants=constants)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    environment |= {"PYTHONUNBUFFERED": "1"} | variables
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=folder, env=environment, text=True, **pipes) as process:  # closes its output
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def program(tmp_path):
    """Start the program in the folder of the test."""
    with ExitStack() as stack:
        yield lambda *args, **variables: stack.enter_context(started(tmp_path, *args, **variables))


@contextmanager
def watched(process):
    """Kill the program if it has not printed in time what the block waits for."""
    watchdog = threading.Timer(DEADLINE_SECONDS, process.kill)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


def read_until(process, pattern):
    """Read what a program prints up to a line with `pattern`, and return it."""
    lines = []
    with watched(process):
        for line in process.stdout:
            lines.append(line)
            if re.search(pattern, line):
                return lines
    return pytest.fail(f"no {pattern} in {''.join(lines)}")


def read_rest(process):
    """Wait until a program ends, and return its exit code and what it prints after `read_until`."""
    with watched(process):
        printed = process.stdout.read()
        return process.wait(), printed


def java_processes(folder):
    """Processes of Java that have to do with a folder."""
    found = subprocess.run(["pgrep", "-f", f"java.*{folder}"], capture_output=True, text=True, check=False)
    return found.stdout.split()


def without_timing(text):
    """Return the words of each line, without the digits of times and of tokens, and without rules and empty lines."""
    return [line.split() for line in re.sub(r"─+|-?\d+\.\d+", "N", text).splitlines() if line.strip()]


def test_the_demo_ends_by_itself_as_its_page_shows(spark):
    done = run("demo", spark=spark)
    assert done.returncode == 0, done.stderr
    page = (CHECKOUT / "docs" / "explanation" / "algorithms.md").read_text()
    (shown,) = re.findall(r"and ends with:\n\n```text\n(.*?)```", page, re.DOTALL)
    assert "all results match KIP-599" in shown
    expected = without_timing(shown)
    # Rows are in the order of their timestamps, and the broker may stamp the two users' requests in any order.
    assert sorted(without_timing(done.stdout)[-len(expected) :]) == sorted(expected)


def test_a_broker_that_is_interrupted_before_it_is_ready_exits_with_130_and_can_be_started_again(program, tmp_path):
    for begun in ("server.properties", "broker.out"):  # its data are prepared, it is started
        args = ("broker", "--port", "0", "--data", str(tmp_path / begun))
        process = program(*args)
        until((tmp_path / begun / begun).exists, poll_seconds=0.02)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=DEADLINE_SECONDS)
        assert (process.returncode, output) == (130, "")
        until(lambda: not java_processes(tmp_path))  # the kernel kills it with its parent
    again = program(*args)
    read_until(again, r"^ready 127\.0\.0\.1:\d+$")
    assert java_processes(tmp_path)
    again.send_signal(signal.SIGTERM)
    assert again.wait(DEADLINE_SECONDS) == 0
    assert not java_processes(tmp_path)


def jvm_of(process):
    """Return the id of a job's JVM."""
    (jvm,) = [each for each in child_processes(process.pid) if "java" in " ".join(command_words(each))]
    return jvm


@pytest.fixture(scope="module")
def ended(base_settings, broker, tmp_path_factory):
    """A job that has charged 60 of alice's 100 mutations twice, has then rejected her, and was stopped by SIGTERM.

    Before that it had served `samples` by name and labels, and the status `readiness` at `/readyz`; its JVM had mapped
    those of the `archives` of classes that are `mapped`, and its callbacks had been closed `closed` times.
    """
    folder = tmp_path_factory.mktemp("ended")
    deployment = prepared_deployment(base_settings, broker, "programs", folder)
    write_record(deployment, QuotaRecord(QuotaEntity("alice"), HARDLY_ANY, controller_mutation_burst=100.0))
    archives, callbacks, mark = list(CLASS_ARCHIVES.glob("enforce-*.jsa")), folder / "callbacks", Mark()
    (folder / "archives").mkdir()
    for archive in archives:  # it would delete those that it cannot use
        (folder / "archives" / archive.name).symlink_to(archive)
    port, topics = free_port(), deployment.topics
    given = (f"metrics.port={port}", "enforce.with_audit=true", "audit.trigger_seconds=0", "spark.master=local[2]")
    given += (f"storage.root={deployment.storage.root}", f"spark.class_archives={folder / 'archives'}")
    given += (f"quota.callback_class={Closing.__module__}.Closing", f"quota.callback_configs.file={callbacks}")
    patient = {"jobs.spark.session._END_SECONDS": DEADLINE_SECONDS}  # a busy machine needs them to write an archive
    own = OWN_ARCHIVE | mark.variable | {"PYTHONPATH": str(CHECKOUT)}
    with started(folder, "enforce", *as_options(deployment, *given), constants=patient, **own) as process:
        read_until(process, r"^running: ")
        until(lambda: served_samples(port).get(("mutation_quota_dead_letters_total",)) == 0)
        produce(
            deployment,
            topics.requests,
            *[request_json(60, request_id=f"r-{number}") for number in range(3)],
            b"no json",
        )

        def served():
            found = served_samples(port)
            decided = found["mutation_quota_decision_latency_seconds_count",] == 3
            names = ("enforce", "audit")
            waiting = [found.get(("mutation_quota_query_lag_records", ("query", name)), 1) for name in names]
            return found if decided and found["mutation_quota_dead_letters_total",] and not any(waiting) else None

        found = until(served)
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=30) as answer:
            readiness = answer.status
        maps = Path(f"/proc/{jvm_of(process)}/maps").read_text()
        closed, temporary = callbacks.read_text().count("closed"), mark.temporary_folders()
        process.send_signal(signal.SIGTERM)
        exit_code, printed = read_rest(process)
    return SimpleNamespace(
        deployment=deployment,
        samples=found,
        readiness=readiness,
        exit_code=exit_code,
        printed=printed,
        port=port,
        mark=mark,
        temporary=temporary,
        archives=archives,
        mapped=[archive for archive in archives if str(archive) in maps],
        closed=closed,
        callbacks=callbacks,
    )


def test_a_job_serves_metrics_until_it_is_stopped(ended):
    found = ended.samples
    alice = (("client_id", ""), ("tags", ""), ("user", "alice"))
    assert round(found["kafka_server_controllermutation_tokens", *alice], 3) == -20
    assert found["kafka_server_controllermutation_throttle_time", *alice] == 2**31 - 1
    assert found["mutation_quota_tenant_burst", *alice] == 100
    assert found["mutation_quota_mutations_total", ("outcome", "admitted")] == 120
    assert found["mutation_quota_mutations_total", ("outcome", "rejected")] == 60
    assert found["mutation_quota_quota_records_total",] == 1
    assert found["mutation_quota_state_rows", ("query", "enforce")] == 1
    assert found["mutation_quota_query_batch_seconds", ("phase", "triggerExecution"), ("query", "audit")] > 0
    assert found["mutation_quota_metrics_failures_total",] == 0
    unused = ("applied", "applier", "callback", "gateway", "observed", "push", "skipped", "standby")
    others = tuple(f"mutation_quota_{other}_" for other in unused)
    of_the_job = {metric.name for metric in METRICS if not metric.name.startswith(others)}
    assert {name.removesuffix("_count") for name, *_ in found} >= of_the_job
    assert (ended.readiness, ended.exit_code) == (200, 0)
    assert not is_listening(ended.port)


def test_a_job_that_is_stopped_while_it_runs_ends_silently_and_leaves_no_process(ended):
    assert (ended.exit_code, ended.printed) == (0, "")
    until(lambda: ended.mark.commands() == [])
    assert ended.temporary
    assert [folder for folder in ended.temporary if Path(folder).exists()] == []


def test_a_callback_is_closed_when_its_worker_ends(ended):
    """It was closed before in the program, which tries it before it starts Spark."""
    decisions = [decision for _, decision in consume_all(ended.deployment, ended.deployment.topics.decisions)]
    assert [decision["callback"] for decision in decisions] == ["tests.support.callbacks.Closing"] * 3
    until(lambda: ended.callbacks.read_text().count("closed") > ended.closed)


def test_a_job_uses_the_class_archive_that_make_has_written(ended):
    """Java and the job ignore the archive of another class path without a word."""
    need((CLASS_ARCHIVES / ".written").exists(), "no class archive of Spark; make test writes it")
    assert ended.archives
    assert ended.mapped == ended.archives


def test_a_job_that_is_killed_logs_nothing_but_json_and_the_next_one_keeps_each_debt(program, spark, deployment):
    """Its JVM is killed as if its heap was too small, or the system needed the memory, and PySpark prints a trace.

    The first request is gone by then, so a job that begins anew would decide the second one otherwise. The second one
    is decided again by the next job, as after a kill right before the commit of its batch.
    """
    operator = Operator(spark, deployment)
    operator.request("before")
    operator.enforce()
    operator.delete_before(1)
    operator.request("killed")
    produce(deployment, deployment.topics.quotas, b"no json")
    options = as_options(deployment, f"storage.root={operator.root}")
    process = program("enforce", *options, *set_options("logging.format=json"))
    lines = read_until(process, '"batch":')
    consume(deployment, deployment.topics.decisions, 2)
    os.kill(jvm_of(process), signal.SIGKILL)
    exit_code, printed = read_rest(process)
    assert exit_code == 1
    events = [json.loads(each) for each in (*lines, *printed.splitlines())]
    of_worker, last = events[len(lines) - 1], events[-1]
    assert (of_worker["service"], of_worker["query"], of_worker["batch"]) == ("enforce", "warming", 0)
    assert "which is not a valid quota record" in of_worker["message"]
    assert last["message"].startswith(
        "Spark's JVM has exited; if the lines before this one show that it ran out of memory"
    )
    assert "raise spark.driver_memory" in last["message"]
    assert (last["level"], last["error"]) == ("ERROR", "MutationQuotaError")

    (operator.checkpoint / "commits" / "1").unlink(missing_ok=True)
    operator.request("after")
    done = run("enforce", "--once", *options, spark=spark)
    assert done.returncode == 0, done.stderr
    answers = [decision for _, decision in consume_all(deployment, deployment.topics.decisions)]
    assert [(answer["request_id"], answer["outcome"], round(answer["tokens"])) for answer in answers] == [
        ("before", "ADMITTED", 40),
        ("killed", "ADMITTED", -20),
        ("killed", "ADMITTED", -20),
        ("after", "REJECTED", -20),
    ]
    assert answers[1] == answers[2]


def stop(process, _):
    """Stop a job cleanly."""
    process.send_signal(signal.SIGTERM)
    assert read_rest(process)[0] == 0


def kill(process, _):
    """Kill a program, whose JVM exits by itself."""
    process.kill()


def hang(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "end",
    [stop, kill, lambda process, jvm: hang(process.pid, jvm), lambda process, _: hang(process.pid)],
    ids=["stopped", "killed", "hanging", "hanging without its JVM"],
)
def test_a_standby_takes_over_while_users_request_and_nothing_is_lost_or_charged_twice(program, deployment, end):
    """One that hangs for longer than its lease loses it, stands by when it continues, and takes over again."""
    prepare_users(deployment)
    root = f"storage.root={deployment.storage.root}"
    options = as_options(deployment, root, "storage.lease_seconds=15", "spark.master=local[1]")
    first = program("enforce", *options)
    read_until(first, "^running: ")
    second, jvm = program("enforce", *options), jvm_of(first)
    read_until(second, f"standing by for process {first.pid} on .*: ready to take over")
    with requesting(deployment) as requested:

        def wait_for_decisions():
            asked = len(requested)
            until(lambda: len(decisions_of(deployment)) > asked + SOME, DEADLINE_SECONDS)

        wait_for_decisions()
        end(first, jvm)
        wait_for_decisions()
        if first.poll() is None:
            with suppress(ProcessLookupError):  # it has halted
                os.kill(jvm, signal.SIGCONT)
            first.send_signal(signal.SIGCONT)
            read_until(first, "it waits again")
            read_until(first, f"standing by for process {second.pid} on .*: ready to take over")
            stop(second, None)
            wait_for_decisions()
            second = first
    until(lambda: len(decisions_of(deployment)) == len(requested), DEADLINE_SECONDS)
    check_tokens(deployment, requested)
    stop(second, None)
    check_leases_released(deployment, "enforce")


LIMIT_SECONDS = 10
"""The time limit of a client at the gateway."""


@contextmanager
def creating(address):
    """Create topics and delete them again inside the block, as three clients; yields their topics and errors."""
    done, errors = [], []

    def work(client, end):
        admin = AdminClient({**QUIET, "bootstrap.servers": address})
        names = (f"rolling-update-{client}-{number}" for number in count())
        while not end.wait(0.3):
            name = next(names)
            try:
                admin.create_topics([NewTopic(name, 1)], request_timeout=LIMIT_SECONDS)[name].result()
                admin.delete_topics([name], request_timeout=LIMIT_SECONDS)[name].result()
            except KafkaException as error:
                errors.append(error)
            done.append(name)

    with ExitStack() as clients:
        for client in range(3):
            clients.enter_context(background(partial(work, client), "client"))
        yield done, errors


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_no_client_at_the_gateway_gets_an_error_while_enforce_is_updated(program, deployment, tmp_path):
    """Of two processes, one is replaced after the other, as by the chart: when the one before is ready to take over."""
    prepare_topics(deployment)
    write_record(deployment, QuotaRecord(QuotaEntity(None), 1e6))
    options = as_options(deployment, f"storage.root={deployment.storage.root}", "spark.master=local[1]")

    def start(line):
        process = program("enforce", *options)
        read_until(process, line)
        return process

    active, standby = start("^running: "), start("ready to take over")
    with running_gateway(deployment, tmp_path / "gateway.log") as gateway, creating(gateway.address) as (done, errors):
        for _ in range(2):
            before = len(done)
            until(lambda before=before: len(done) > before + 20, DEADLINE_SECONDS)
            stop(active, None)
            active, standby = standby, start("ready to take over")
        before = len(done)
        until(lambda: len(done) > before + 20, DEADLINE_SECONDS)
    assert errors == []
    stop(standby, None)
    stop(active, None)
