"""Kill the job again and again while requests flow, and check that no crash loses, duplicates or changes a decision."""

import argparse
import math
import signal
import sys
import tempfile
import time
from pathlib import Path

from jobs.sandbox.broker import embedded_broker, with_plaintext_cluster
from quota.settings import load_settings
from tests.evidence.chaos.brokers import run_brokers
from tests.evidence.chaos.page import (
    brokers_table,
    figures_table,
    page,
    part_table,
    step_tables,
    store_table,
    surroundings_table,
)
from tests.evidence.chaos.run import kill_all, under_fire, verdict_of
from tests.evidence.chaos.store import run_store
from tests.evidence.chaos.surroundings import disturb
from tests.evidence.pages import progress, terminal, write_page
from tests.support.deployment import make_deployment

_KILLS, _QUICK_KILLS = 100, 5
_ROUNDS, _QUICK_ROUNDS = 2, 1
_BROKER_ROUNDS = 3
_STORE_KILLS = 20
_COLUMNS = 160


def main():
    """Run the program; exit 1 if anything was lost, duplicated or changed."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # no process may outlive this one
    sys.stdout.reconfigure(line_buffering=True)
    console = terminal(_COLUMNS)
    began, notify = time.monotonic(), progress(console)
    try:
        with tempfile.TemporaryDirectory(prefix="mutation-quota-") as folder:
            brokers = run_brokers(Path(folder, "brokers"), options.broker_rounds, options.rate, notify)
            _show(brokers_table(*brokers), brokers[1], console)
            store = run_store(Path(folder, "store"), options.store_kills, options.rate, notify)
            _show(store_table(*store), store[1], console)
            if options.without_steps:
                return
            tally, verdict = _run(options, Path(folder), notify)
            surroundings = None if options.quick else disturb(Path(folder, "surroundings"), notify)
    except KeyboardInterrupt:
        sys.exit("chaos: interrupted; nothing was written")
    seconds = time.monotonic() - began
    tables = [figures_table(tally, verdict, seconds), *step_tables(tally), part_table(tally)]
    for table in tables if surroundings is None else [*tables, surroundings_table(surroundings)]:
        console.print(table.drawn())
    if verdict.wrong:
        sys.exit(f"chaos: {verdict}")
    if surroundings is not None and surroundings.wrong:
        sys.exit(f"chaos: {'; '.join(surroundings.wrong)}")
    if tally.never and not options.quick:
        sys.exit(f"chaos: no kill has hit: {', '.join(step.value for step in tally.never)}; run it again")
    if not options.quick:
        write_page(options.out / "chaos.md", page((tally, verdict), brokers, store, surroundings, seconds), console)
    console.print("nothing lost, nothing doubled, nothing changed", style="bold green")


def _options():
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, metavar="N", help=f"at random moments, besides those at steps; {_KILLS}")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"of kills at each step; {_ROUNDS}")
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="M", help="after which no kill follows")
    parser.add_argument("--rate", type=float, default=40.0, metavar="R", help="requests a second; 40")
    parser.add_argument("--quick", action="store_true", help="some minutes, without the page")
    parser.add_argument("--broker-rounds", type=int, metavar="N", help=f"of failures of brokers; {_BROKER_ROUNDS}")
    parser.add_argument("--store-kills", type=int, metavar="N", help=f"of a job on S3; {_STORE_KILLS}")
    parser.add_argument(
        "--without-steps", action="store_true", help="only failures of brokers and kills on S3; no page"
    )
    parser.add_argument("--out", type=Path, default=Path("docs/evidence"), metavar="FOLDER", help="for chaos.md")
    options = parser.parse_args()
    if options.kills is None:
        options.kills = _QUICK_KILLS if options.quick else _KILLS
    if options.rounds is None:
        options.rounds = _QUICK_ROUNDS if options.quick else _ROUNDS
    if options.broker_rounds is None:
        options.broker_rounds = _QUICK_ROUNDS if options.quick else _BROKER_ROUNDS
    if options.store_kills is None:
        options.store_kills = _QUICK_KILLS if options.quick else _STORE_KILLS
    return options


def _show(table, verdict, console):
    """Print the outcome of an arm as soon as it is known; exit 1 if anything was wrong."""
    console.print(table.drawn())
    if verdict.wrong:
        sys.exit(f"chaos: {verdict}")


def _run(options, folder, notify):
    settings = load_settings([f"storage.root={folder}"], environment={})
    with embedded_broker(settings, port=0) as broker:
        settings = make_deployment(with_plaintext_cluster(settings, broker.address), "chaos", folder / "job")
        with under_fire(settings, folder / "jobs.log", notify, options.rate) as killer:
            kill_all(killer, options.rounds, options.kills, options.minutes * 60)
        return killer.tally, verdict_of(settings, folder / "jobs.log", notify)


if __name__ == "__main__":
    main()
