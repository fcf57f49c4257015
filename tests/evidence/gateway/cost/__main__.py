"""Measures the cost of the gateway, compared with a direct connection: `python -m tests.evidence.gateway.cost`."""

import argparse
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka.admin import AdminClient, NewTopic

from quota.errors import MutationQuotaError
from quota.settings import load_settings
from tests.evidence.gateway.cost.calls import latencies, requests, throughput
from tests.evidence.gateway.cost.connections import idle_connections
from tests.evidence.gateway.cost.decisions import Observer
from tests.evidence.gateway.cost.ground import Ground, ground
from tests.evidence.gateway.cost.metadata import listings, make_topics
from tests.evidence.gateway.cost.mutations import mutations
from tests.evidence.gateway.cost.page import Figures, Plan, page, tables
from tests.evidence.gateway.cost.transfer import BATCHES, transfers
from tests.evidence.machine import load
from tests.evidence.pages import progress, terminal, write_page
from tests.support.clients import QUIET

_TOPIC, _LARGE = "called", "transferred"

_FULL = Plan(
    calls=5000, rounds=3, seconds=1.5, transfers=5, connections=5000, idle=10.0, mutations=30, topics=1000, listings=20
)
_QUICK = Plan(
    calls=100, rounds=1, seconds=0.3, transfers=1, connections=100, idle=1.0, mutations=3, topics=50, listings=3
)


def main() -> None:
    """Run the program; an error is one line on standard error."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parser = argparse.ArgumentParser(prog="gateway-cost", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tiny run of a minute, to check that it works")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for gateway-cost.md")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="a setting")
    options = parser.parse_args()
    console = terminal(120)
    try:
        figures = measure(_QUICK if options.quick else _FULL, options.set, progress(console))
    except MutationQuotaError as error:
        print(f"gateway-cost: {error}", file=sys.stderr)
        sys.exit(1)
    for table in tables(figures):
        console.print(table.drawn())
    if options.out:
        write_page(options.out / "gateway-cost.md", page(figures), console)


def measure(plan: Plan, options: list[str], notify: Callable[[str], None]) -> Figures:
    """Measure all figures of the page."""
    before = load()
    with TemporaryDirectory(prefix="mutation-quota-") as folder:
        settings = load_settings([*options, f"storage.root={folder}"], environment={})
        notify("starting a broker and three gateways")
        with ground(settings, Path(folder)) as where:
            _make_topics(where)
            calls = requests(_TOPIC)
            notify("calls, one at a time")
            single = {each.name: latencies(where, each, plan.calls) for each in calls}
            notify("calls, many at once")
            many = {
                (each.name, in_flight): throughput(where, each, in_flight, plan.rounds, plan.seconds)
                for each in calls
                for in_flight in (1, 64)
            }
            notify("produce and fetch")
            moved = transfers(where, _LARGE, plan.transfers)
            notify("idle connections")
            idle = list(idle_connections(where, calls[1], plan.connections, plan.idle))
            notify("creates and deletes")
            changes = list(_mutations(where, plan))
            notify(f"Metadata of {plan.topics:,} topics")
            make_topics(where, plan.topics)
            listed = listings(where, plan.listings)
            notify("done")
    return Figures(plan, single, many, moved, idle, changes, listed, (before, load()))


def _make_topics(where: Ground) -> None:
    admin = AdminClient({**QUIET, "bootstrap.servers": f"127.0.0.1:{where.direct}"})
    made = admin.create_topics([NewTopic(_TOPIC, 1), NewTopic(_LARGE, BATCHES)])
    for future in made.values():
        future.result()


def _mutations(where: Ground, plan: Plan) -> Iterator:
    observer = Observer(where.settings)
    with observer.at_work():
        yield from mutations(where, observer, plan.mutations)


if __name__ == "__main__":
    main()
