"""A deployment under requests, killed again and again, and beside it one that is not: what became of the answers."""

import math
import time
from contextlib import contextmanager

from quota.kafka.topics import prepare_topics
from tests.chaos.evidence import gather
from tests.chaos.kills import Killer, Part
from tests.chaos.processes import Job
from tests.chaos.steps import AuditStep, Step
from tests.chaos.traffic import Traffic
from tests.chaos.verdict import judge
from tests.deployments import deployed

WANTED = [step for step in Step if step is not Step.IDLE] + [*AuditStep]
"""The steps that are waited for. With requests flowing a query is not idle."""

_FINISH_SECONDS = 500.0


@contextmanager
def under_fire(settings, log, tell, requests_per_second):
    """A job that is killed within the block, while requests flow."""
    prepare_topics(settings)
    traffic = Traffic(settings)
    traffic.set_quotas()
    killer = Killer(settings, log, tell)
    try:
        with traffic.flowing(requests_per_second):
            yield killer
    finally:
        killer.stop()


def kill_all(killer, rounds, kills, seconds=math.inf):
    """At each step, so many rounds; each part alone; then so many at random, or as many as these seconds allow."""
    deadline = time.monotonic() + seconds
    for _ in range(rounds):
        for step in WANTED:
            killer.kill_at(step)
    for part in Part:
        killer.kill_part(part)
    for _ in range(kills):
        if time.monotonic() < deadline:
            killer.kill_at_random()


def verdict_of(settings, log, tell):
    """Have the job finish what is there, have another one answer it all undisturbed, and compare."""
    tell("the job finishes what is there")
    _finish(settings, log)
    undisturbed = undisturbed_of(settings)
    tell("another one answers the same requests undisturbed")
    _finish(undisturbed, log, "--set", "enforce.with_audit=false")
    tell("comparing")
    return judge(gather(settings, undisturbed))


def undisturbed_of(settings):
    """A deployment that answers the same requests by the same quotas, on topics and a storage root of its own."""
    alone = deployed(settings, f"{settings.topics.requests}-undisturbed", f"{settings.storage.root}-undisturbed")
    same = {"requests": settings.topics.requests, "quotas": settings.topics.quotas}
    return alone.model_copy(update={"topics": alone.topics.model_copy(update=same)})


def _finish(settings, log, *options):
    job = Job(settings, log, "--once", *options)
    try:
        code = job.finish(_FINISH_SECONDS)
        assert code == 0, f"ended with {code}:\n{job.said[-3000:]}"
    finally:
        if job.exit_code is None:
            job.kill()
