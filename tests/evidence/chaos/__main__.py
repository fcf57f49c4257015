"""Disturb jobs while requests flow, and check that nothing is lost, duplicated or changed: `make chaos`."""

import argparse
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from jobs.sandbox.broker import embedded_broker, with_plaintext_cluster
from quota.settings import load_settings
from tests.evidence.chaos.brokers import run_brokers
from tests.evidence.chaos.results import (
    broker_results,
    job_results,
    store_results,
    surroundings_results,
    versions,
)
from tests.evidence.chaos.run import EACH, ONE, kill_all, under_fire, verdict_of
from tests.evidence.chaos.store import run_store
from tests.evidence.chaos.surroundings import disturb
from tests.evidence.progress import progress
from tests.evidence.report import publish
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
    fill_seconds: float
    """Time of full disks."""


FULL = Size(EACH, rounds=2, kills=100, broker_rounds=3, store_kills=20, fill_seconds=240.0)
SMOKE = Size(ONE, rounds=1, kills=1, broker_rounds=0, store_kills=1, fill_seconds=5.0)


def main():
    """Run the program; exit 1 if anything was lost, duplicated or changed."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # no process may outlive this one
    began, notify = time.monotonic(), progress()
    size = SMOKE if options.smoke else FULL
    try:
        with tempfile.TemporaryDirectory(prefix="mutation-quota-") as folder:
            results = {name: SECTIONS[name](Path(folder, name), size, notify) for name in options.only or SECTIONS}
    except KeyboardInterrupt:
        sys.exit("chaos: interrupted; nothing was written")
    minutes = round((time.monotonic() - began) / 60)
    publish({"minutes": minutes, "versions": versions(), **results}, PAGE, options.out and options.out / "chaos.md")


def _options():
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.chaos", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="each kind of failure once; some minutes")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for the page and the JSON of a whole run")
    options = parser.parse_args()
    if options.out and (options.only or options.smoke):
        parser.error("--out writes the page of a whole run: without --only and --smoke")
    return options


def _brokers(folder, size, notify):
    tally, verdict = run_brokers(folder, size.broker_rounds, RATE, notify)
    _check(verdict)
    return broker_results(tally, verdict)


def _store(folder, size, notify):
    tally, verdict = run_store(folder, size.store_kills, RATE, notify)
    _check(verdict)
    return store_results(tally, verdict)


def _job(folder, size, notify):
    folder.mkdir()
    settings = load_settings([f"storage.root={folder}"], environment={})
    log = folder / "jobs.log"
    with embedded_broker(settings, port=0) as broker:
        settings = make_deployment(with_plaintext_cluster(settings, broker.address), "chaos", folder / "job")
        with under_fire(settings, log, notify, RATE) as killer:
            kill_all(killer, size.kinds, size.rounds, size.kills)
        verdict = verdict_of(settings, log, notify)
    _check(verdict)
    if killer.tally.never and size is FULL:
        sys.exit(f"chaos: no kill has hit: {', '.join(step.value for step in killer.tally.never)}; run it again")
    return job_results(killer.tally, verdict)


def _surroundings(folder, size, notify):
    folder.mkdir()
    surroundings = disturb(folder, notify, size.fill_seconds)
    if surroundings.wrong:
        sys.exit(f"chaos: {'; '.join(surroundings.wrong)}")
    return surroundings_results(surroundings)


def _check(verdict):
    if verdict.wrong:
        sys.exit(f"chaos: {verdict}")


SECTIONS = {"brokers": _brokers, "store": _store, "job": _job, "surroundings": _surroundings}


if __name__ == "__main__":
    main()
