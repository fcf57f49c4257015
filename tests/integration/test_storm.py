"""Many applications, quotas far below what they ask for, and an applier that is killed again and again."""

import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from jobs.enforce import start_enforce
from quota.entity import QuotaEntity
from quota.kafka.quota_store import write_record
from quota.kafka.topics import prepare_topics
from quota.log_record import QuotaRecord
from tests.storm import Storm

KILLS = 20


@pytest.fixture
def enforcing(spark, deployment):
    """The job at work on a deployment whose clients leave the carrying out to an applier."""
    client = deployment.client.model_copy(update={"applied_by": "applier"})
    settings = deployment.model_copy(update={"client": client})
    prepare_topics(settings)
    query = start_enforce(spark, settings)
    yield settings
    query.stop()


def apply_process(settings):
    """An applier as a process of its own."""
    topics = [option for name, topic in settings.topics for option in ("--set", f"topics.{name}={topic}")]
    topics = topics[: 2 * len(settings.topics.names)]
    where = ["--bootstrap-server", settings.kafka.bootstrap_servers, "--set", f"apply.group={settings.apply.group}"]
    return subprocess.Popen(
        [sys.executable, "-c", "from jobs.cli import main; main()", "apply", *topics, *where], stderr=subprocess.PIPE
    )


@contextmanager
def killed_again_and_again(settings, times, seed):
    """An applier that is killed at random moments; in the end one is left to finish."""
    rng = random.Random(seed)
    process = apply_process(settings)
    kills = 0

    def kill():
        nonlocal process, kills
        while kills < times:
            time.sleep(rng.uniform(0.5, 2.5))
            process.kill()
            process.communicate()
            process = apply_process(settings)
            kills += 1

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield lambda: kills
    finally:
        killer.join()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
        assert process.returncode == 0, said


def test_a_storm_with_an_applier_that_is_killed(enforcing):
    """Nothing is created that was not admitted, nothing twice, nothing is missing, and nobody is left waiting."""
    write_record(enforcing, QuotaRecord(QuotaEntity(None), 3.0))
    with killed_again_and_again(enforcing, KILLS, seed=599) as kills:
        report = Storm(enforcing).rage(seconds=40)
        print(report)
    assert report.wrong == []
    assert report.outcomes["done"] > 20
    assert report.outcomes["refused"] > 20
    assert kills() == KILLS
