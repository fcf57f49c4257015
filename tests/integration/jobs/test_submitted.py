"""The packaged job on a cluster: Spark standalone, spark-submit, and a worker that dies."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobs.spark.packing import pack
from quota.kafka.quotas.writer import write_record
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from tests.support.checkout import CHECKOUT
from tests.support.deployment import as_options
from tests.support.factories import request_json
from tests.support.operator import HARDLY_ANY
from tests.support.programs import child_processes
from tests.support.standalone import Standalone
from tests.support.topics import consume_all, produce
from tests.support.waiting import until

DEADLINE_SECONDS = 180

USERS = [f"user-{number}" for number in range(12)]
ROUND_SECONDS = 0.2
SOME_ROUNDS = 5
LEAST_TOKENS = -2
"""Of a burst of 100, by requests for 2 partitions: the 51st is the last that is admitted."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this checkout, built from a copy of it and without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    for part in ("jobs", "quota", "schemas", "conf"):
        shutil.copytree(CHECKOUT / part, folder / "source" / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / file, folder / "source")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", folder, folder / "source"], check=True, timeout=DEADLINE_SECONDS)
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_the_wheel_holds_all_modules_and_what_they_read(wheel):
    with zipfile.ZipFile(wheel) as files:
        found = {name for name in files.namelist() if ".dist-info/" not in name}
    modules = {str(file.relative_to(CHECKOUT)) for part in ("jobs", "quota", "schemas") for file in modules_of(part)}
    read = {f"jobs/conf/{name}" for name in ("fair-scheduler.xml", "log4j2.properties", "spark-defaults.conf")}
    assets = {
        str(file.relative_to(CHECKOUT))
        for kind in ("html", "css", "js", "svg", "txt")
        for file in modules_of("jobs", kind)
    }
    schemas = {str(file.relative_to(CHECKOUT)) for file in modules_of("schemas", "json")}
    assert found == modules | read | assets | schemas


def modules_of(package, kind="py"):
    return (CHECKOUT / package).rglob(f"*.{kind}")


@pytest.fixture(scope="module")
def packed(wheel, tmp_path_factory):
    """The archive of the environment, and what a driver unpacks of it."""
    folder = tmp_path_factory.mktemp("packed")
    archive = folder / "environment.tar.gz"
    pack(wheel, archive, Path(sys.executable).resolve())
    (folder / "environment").mkdir()
    subprocess.run(["tar", "-xzf", archive, "-C", folder / "environment"], check=True, timeout=DEADLINE_SECONDS)
    shutil.copy(CHECKOUT / "conf" / "spark" / "submit.py", folder)
    return folder


def test_a_worker_that_dies_costs_no_decision(packed, deployment, tmp_path):
    """It is killed with its executor while requests come; each is decided, and every copy of a decision is the same."""
    prepare_topics(deployment)
    write_record(deployment, QuotaRecord(QuotaEntity(None), HARDLY_ANY, controller_mutation_burst=100.0))
    log = tmp_path / "enforce.log"
    some = len(USERS) * SOME_ROUNDS
    with Standalone(tmp_path, workers=2) as cluster, enforcing(cluster, packed, deployment, log) as job:
        with asking(deployment) as asked:
            until(lambda: job.poll() is not None or len(decided(deployment)) > some, DEADLINE_SECONDS)
            assert job.poll() is None, log.read_text()[-2000:]
            until(lambda: all(worked(cluster, worker) for worker in (0, 1)), DEADLINE_SECONDS)
            cluster.kill(0)
            before = len(asked)
            until(lambda: len(decided(deployment)) > before + some, DEADLINE_SECONDS)
        until(lambda: len(decided(deployment)) == len(asked), DEADLINE_SECONDS)
        stop(job)
        assert job.wait(DEADLINE_SECONDS) == 0, log.read_text()[-2000:]
    tokens = {user: [] for user in USERS}
    for decision in sorted(decided(deployment).values(), key=lambda each: each["source"]["offset"]):
        tokens[decision["user"]].append(round(decision["tokens"], 1))
    rounds = len(asked) // len(USERS)
    expected = [max(100 - 2 * number, LEAST_TOKENS) for number in range(1, rounds + 1)]
    assert [tokens[user] for user in USERS] == [expected] * len(USERS)
    assert "Lost executor" in log.read_text()


@contextmanager
def enforcing(cluster, packed, deployment, log):
    """The job, as an operator submits it."""
    properties = {
        "spark.archives": f"{packed / 'environment.tar.gz'}#environment",
        "spark.pyspark.python": "./environment/bin/python",
        "spark.executor.memory": "512m",
    }
    args = ["enforce", *as_options(deployment), "--set", f"storage.root={deployment.storage.root}"]
    options = [
        "--jars",
        f"{CHECKOUT}/.jars/spark/*.jar",
        "--properties-file",
        CHECKOUT / "conf" / "spark-defaults.conf",
    ]
    options += [part for name, value in properties.items() for part in ("--conf", f"{name}={value}")]
    job = cluster.submit(*options, "submit.py", *args, log=log, cwd=packed)
    try:
        yield job
    finally:
        if job.poll() is None:
            job.kill()
            job.wait()


@contextmanager
def asking(deployment):
    """A request by each user every now and then, those of a user by one partition; all that were asked."""
    asked, enough = [], threading.Event()

    def ask():
        while not enough.wait(ROUND_SECONDS):
            for partition in (0, 1):
                values = [request_json(2, user=user) for user in USERS[partition::2]]
                produce(deployment, deployment.topics.requests, *values, partition=partition)
            asked.extend(USERS)

    requests = threading.Thread(target=ask)
    requests.start()
    try:
        yield asked
    finally:
        enough.set()
        requests.join()


def worked(cluster, worker):
    """Whether an executor of a worker has run Python."""
    return any(child_processes(executor) for executor in cluster.executors(worker))


def decided(deployment):
    """The decisions by their id."""
    found = {}
    for _, decision in consume_all(deployment, deployment.topics.decisions):
        assert found.setdefault(decision["decision_id"], decision) == decision
    return found


def stop(job):
    """Tell the program to end, which spark-submit's JVM runs."""
    (program,) = [pid for pid in child_processes(job.pid) if b"submit.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(program, signal.SIGTERM)
