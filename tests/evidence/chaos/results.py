"""What happened, as it is printed and stored."""

import platform
from importlib.metadata import version

from tests.evidence.chaos.brokers import Failure
from tests.evidence.chaos.steps import AuditStep, Step
from tests.support.chaos.verdict import BROKER_CHECKS, CHECKS, COPIES_DIFFER

_PACKAGES = ("pyspark", "delta-spark", "confluent-kafka")


def versions():
    """Return the versions of what was disturbed."""
    return {**{package: version(package) for package in _PACKAGES}, "python": platform.python_version()}


def job_results(tally, verdict):
    """Return the kills of the job, and the verdict."""
    return {
        "kills": tally.kills,
        "at_steps": tally.at_steps,
        "at_random": tally.random,
        "parts": [{"killed": part.value, "outcome": outcome} for part, outcome in tally.parts.items()],
        "start_seconds": _median(tally.starts),
        "steps": _by_step(Step, tally.steps, tally.missed),
        "audit_steps": _by_step(AuditStep, tally.audit_steps, tally.missed),
        **_verdict(verdict, CHECKS),
    }


def broker_results(tally, verdict):
    """Return the failures of brokers, and the verdict."""
    return {
        "failures": [{"failure": failure.value, "count": tally.failures[failure]} for failure in Failure],
        "election_seconds": _median(tally.elections),
        "exits": len(tally.ended),
        **_verdict(verdict, BROKER_CHECKS),
    }


def store_results(tally, verdict):
    """Return the kills of the job on S3, and the verdict."""
    return {
        "while_starting": tally.starting,
        "after_a_batch": tally.running,
        "compactions": tally.compactions,
        "start_seconds": _median(tally.starts),
        **_verdict(verdict, BROKER_CHECKS),
    }


def surroundings_results(surroundings):
    """Return the failures around the jobs, and their outcome."""
    return {
        "fills": surroundings.fills,
        "exits": surroundings.stops,
        "outage_seconds": surroundings.outage,
        "wrong": len(surroundings.wrong),
    }


def _verdict(verdict, checks):
    return {
        "requests": verdict.requests,
        "decisions": verdict.decisions,
        "refused": verdict.refused,
        "dead_letters": verdict.dead_letters,
        "quota_changes": verdict.quota_changes,
        "copies": verdict.copies - verdict.wrong[COPIES_DIFFER],
        "wrong": {check: verdict.wrong[check] for check in checks},
    }


def _by_step(steps, kills, missed):
    return [{"step": step.value, "kills": kills[step], "not_reached": missed[step]} for step in steps]


def _median(values):
    return sorted(values)[len(values) // 2] if values else None
