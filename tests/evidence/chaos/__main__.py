"""Disturb jobs while requests flow, and check that nothing is lost, duplicated or changed: `make chaos`."""

from dataclasses import dataclass
from operator import or_
from pathlib import Path

from jobs.sandbox.broker import embedded_broker, with_plaintext_cluster
from quota.settings import load_settings
from tests.evidence.chaos.brokers import Failure, run_brokers
from tests.evidence.chaos.clients import run_clients
from tests.evidence.chaos.kills import Killer
from tests.evidence.chaos.run import EACH, ONE, kill_all, verdict_of
from tests.evidence.chaos.steps import AuditStep, Step
from tests.evidence.chaos.store import run_store
from tests.evidence.chaos.surroundings import disturb
from tests.evidence.chaos.traffic import Traffic
from tests.evidence.chaos.verdict import BROKER_CHECKS, CHECKS
from tests.evidence.chaos.writers import WITHOUT_LEASE, WrittenFiles, without_lease
from tests.evidence.command import Sections, run
from tests.evidence.machine import versions
from tests.support.deployment import make_deployment

PAGE = Path(__file__).with_name("page.md.in")
RATE = 40.0
"""Requests a second."""


@dataclass(frozen=True, slots=True)
class Size:
    """The number of failures."""

    kinds: tuple
    """Steps and parts that are killed, of the enforcing query and of the audit."""
    rounds: int
    """Kills at each step."""
    kills: int
    """Kills at random moments."""
    broker_rounds: int
    """Rounds of failures of brokers; 0 for one kill and one cut-off leader."""
    store_kills: int
    """Kills of a job on S3."""
    client_kills: int
    """Kills of a job while clients wait for its decisions."""
    fill_seconds: float
    """Time of full disks."""


FULL = Size(EACH, rounds=2, kills=100, broker_rounds=3, store_kills=20, client_kills=20, fill_seconds=240.0)
SMOKE = Size(ONE, rounds=1, kills=1, broker_rounds=0, store_kills=2, client_kills=1, fill_seconds=5.0)


def play(options, folder, notify):
    """Return the results of each section; those that fail are in `wrong`."""
    size = SMOKE if options.smoke else FULL
    results, wrong = {"versions": versions()}, []
    for name in options.only or SECTIONS:
        try:
            results[name] = SECTIONS[name](folder / name, size, notify)
        except Exception as error:  # noqa: BLE001 the results of hours are printed
            wrong.append(f"{name}: {type(error).__name__}: {error}")
            notify(wrong[-1])
    return results | {"wrong": wrong}


def _brokers(folder, size, notify):
    tally, verdict = run_brokers(folder, size.broker_rounds, RATE, notify)
    return {
        "failures": [{"failure": failure.value, "count": tally.failures[failure]} for failure in Failure],
        "election_seconds": _median(tally.elections),
        "exits": len(tally.ended),
        **_checked(verdict, BROKER_CHECKS),
    }


def _store(folder, size, notify):
    tally, verdict, files = run_store(folder, size.store_kills, RATE, notify)
    return {
        "while_starting": tally.starting,
        "after_a_batch": tally.running,
        "standing_by": tally.standing_by,
        "compactions": tally.compactions,
        "start_seconds": _median(tally.starts),
        "takeover_seconds": _median(tally.takeovers),
        **_writers(verdict, *files),
        **_checked(verdict, (*BROKER_CHECKS, WITHOUT_LEASE)),
    }


def _clients(folder, size, notify):
    report = run_clients(folder, size.client_kills, notify)
    assert not report.wrong, "; ".join(report.wrong)
    return {
        "kills": size.client_kills,
        **{name: report.total(name) for name in ("calls", "undecided", "given_up", "found_done")},
        "steps": {name: report.steps[name] for name in ("created", "grown", "deleted")},
        "decisions": report.decisions,
        "withdrawn": report.withdrawn,
        "repeats": report.repeats.total(),
        "charged_minus_made": report.charged_minus_made,
    }


def _job(folder, size, notify):
    folder.mkdir()
    given = [f"storage.root={folder}", "enforce.state_partitions=2"]  # a kill may come between their states
    settings = load_settings(given, environment={})
    log = folder / "jobs.log"
    with embedded_broker(settings, port=0) as broker:
        settings = make_deployment(with_plaintext_cluster(settings, broker.address), "chaos", folder / "job")
        files = WrittenFiles(settings.storage.url)
        with Traffic.flowing(settings, RATE), files.watching():
            killer = Killer(settings, log, notify, files)
            try:
                kill_all(killer, size.kinds, size.rounds, size.kills)
            finally:
                killer.stop()
        verdict = verdict_of(settings, log, notify)
    tally = killer.tally
    figures = {
        "kills": tally.kills,
        "at_steps": tally.at_steps,
        "at_random": tally.random,
        "standing_by": tally.standing_by,
        "parts": [{"killed": part.value, "outcome": outcome} for part, outcome in tally.parts.items()],
        "start_seconds": _median(tally.starts),
        "takeover_seconds": _median(tally.takeovers),
        "steps": _by_step(Step, tally.steps, tally.missed),
        "audit_steps": _by_step(AuditStep, tally.audit_steps, tally.missed),
        **_writers(verdict, files.writes, files.claims),
        **_checked(verdict, (*CHECKS, WITHOUT_LEASE)),
    }
    never = ", ".join(step.value for step in tally.never)
    assert not never or size is not FULL, f"no kill has hit: {never}; run it again"
    return figures


def _surroundings(folder, size, notify):
    folder.mkdir()
    fills, stops, outage, wrong = disturb(folder, notify, size.fill_seconds)
    assert not wrong, "; ".join(wrong)
    return {"fills": fills, "exits": stops, "outage_seconds": outage, "wrong": 0}


def _writers(verdict, writes, claims):
    """Check the writers of the files of checkpoints, and return the figures."""
    for write in without_lease(writes, claims):
        verdict.note(WITHOUT_LEASE, write)
    return {"claims": len(claims), "writes": len(writes)}


def _checked(verdict, checks):
    """Return the figures of a verdict, which must not have found anything wrong."""
    assert not verdict.wrong, str(verdict)
    return {
        "requests": verdict.requests,
        "decisions": verdict.decisions,
        "rejected": verdict.rejected,
        "dead_letters": verdict.dead_letters,
        "quota_changes": verdict.quota_changes,
        "copies": verdict.copies,
        "wrong": dict.fromkeys(checks, 0),
    }


def _by_step(steps, kills, missed):
    return [{"step": step.value, "kills": kills[step], "not_reached": missed[step]} for step in steps]


def _median(values):
    return sorted(values)[len(values) // 2] if values else None


SECTIONS = {
    "brokers": _brokers,
    "store": _store,
    "clients": _clients,
    "job": _job,
    "surroundings": _surroundings,
}


if __name__ == "__main__":
    run("chaos", play, PAGE, Sections(SECTIONS, or_))
