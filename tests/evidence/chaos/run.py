"""A deployment that is killed again and again while requests flow, and an undisturbed one for comparison."""

from itertools import product

from tests.evidence.chaos.kills import Part
from tests.evidence.chaos.processes import Job
from tests.evidence.chaos.records import gather
from tests.evidence.chaos.steps import AuditStep, Step
from tests.evidence.chaos.verdict import verdict_on
from tests.support.deployment import undisturbed_of

EACH = (tuple(step for step in Step if step is not Step.IDLE), tuple(Part), tuple(AuditStep))
"""The steps to kill at, the parts and the steps of the audit. While requests flow, a query is never idle."""

ONE = ((Step.BEFORE_COMMIT,), (Part.WORKERS,), (AuditStep.DELTA,))
"""One of each."""

_FINISH_SECONDS = 500.0


def kill_all(killer, kinds, rounds, kills):
    """Kill the job at each step, each part of it alone, and at random moments.

    Half of the random kills, and those at steps of the audit, hit a job that does the audit as well. The rounds of a
    step follow one another, so that it is hit with a standby and without.
    """
    steps, parts, audit_steps = kinds
    for step, _ in product(steps, range(rounds)):
        killer.kill_at(step)
    for part in parts:
        killer.kill_part(part)
    for _ in range(kills - kills // 2):
        killer.kill_at_random()
    killer.with_audit()
    for step, _ in product(audit_steps, range(rounds)):
        killer.kill_at(step)
    for _ in range(kills // 2):
        killer.kill_at_random()


def verdict_of(settings, log, notify, acknowledged=None, options=()):
    """Let the job finish, have another one answer the same requests undisturbed, and compare the answers."""
    notify("the job finishes what is there")
    finish(settings, log, *options, with_audit=True)
    undisturbed = undisturbed_of(settings)
    notify("another one answers the same requests undisturbed")
    finish(undisturbed, log, *options, with_audit=False)
    notify("comparing")
    return verdict_on(gather(settings, undisturbed), acknowledged)


def finish(settings, log, *options, with_audit):
    """Decide what is there, in a job of its own."""
    job = Job(settings, log, "--once", *options, with_audit=with_audit)
    try:
        code = job.finish(_FINISH_SECONDS)
        assert code == 0, f"ended with {code}:\n{job.output[-3000:]}"
    finally:
        if job.exit_code is None:
            job.kill()
