"""A deployment under requests, killed again and again, and beside it one that is not: what became of the answers."""

import math
import time
from contextlib import contextmanager

from quota.kafka.topics.specs import prepare_topics
from tests.evidence.chaos.evidence import gather
from tests.evidence.chaos.kills import Killer, Part
from tests.evidence.chaos.processes import Job
from tests.evidence.chaos.steps import AuditStep, Step
from tests.evidence.chaos.traffic import Traffic
from tests.evidence.chaos.verdict import judge
from tests.support.deployments import deployed

WANTED = [step for step in Step if step is not Step.IDLE]
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
    """At each step, so many rounds; each part alone; and so many at random, or as many as these seconds allow.

    Half of those at random, and those at steps of the audit, are of a job that does the audit, too.
    """
    deadline = time.monotonic() + seconds
    _kill_at_each(killer, rounds, WANTED)
    for part in Part:
        killer.kill_part(part)
    _kill_at_random(killer, kills - kills // 2, deadline)
    killer.with_audit()
    _kill_at_each(killer, rounds, AuditStep)
    _kill_at_random(killer, kills // 2, deadline)


def _kill_at_each(killer, rounds, steps):
    for _ in range(rounds):
        for step in steps:
            killer.kill_at(step)


def _kill_at_random(killer, kills, deadline):
    for _ in range(kills):
        if time.monotonic() < deadline:
            killer.kill_at_random()


def verdict_of(settings, log, tell):
    """Have the job finish what is there, have another one answer it all undisturbed, and compare."""
    tell("the job finishes what is there")
    _finish(settings, log, with_audit=True)
    undisturbed = undisturbed_of(settings)
    tell("another one answers the same requests undisturbed")
    _finish(undisturbed, log, with_audit=False)
    tell("comparing")
    return judge(gather(settings, undisturbed))


def undisturbed_of(settings):
    """A deployment that answers the same requests by the same quotas, on topics and a storage root of its own."""
    alone = deployed(settings, f"{settings.topics.requests}-undisturbed", f"{settings.storage.root}-undisturbed")
    same = {"requests": settings.topics.requests, "quotas": settings.topics.quotas}
    return alone.model_copy(update={"topics": alone.topics.model_copy(update=same)})


def _finish(settings, log, *, with_audit):
    job = Job(settings, log, "--once", with_audit=with_audit)
    try:
        code = job.finish(_FINISH_SECONDS)
        assert code == 0, f"ended with {code}:\n{job.said[-3000:]}"
    finally:
        if job.exit_code is None:
            job.kill()
