"""The page docs/evidence/gateway/gateway-cost.md and its tables."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.evidence.gateway.cost.calls import CONNECTIONS, Latency, Throughput
from tests.evidence.gateway.cost.connections import Idle
from tests.evidence.gateway.cost.metadata import PARTITIONS, Listing
from tests.evidence.gateway.cost.mutations import Mutation
from tests.evidence.gateway.cost.transfer import BATCHES, Transfer
from tests.evidence.machine import machine
from tests.evidence.pages import NOTHING, Table

_WIDTH = 118

_ADDED_CALL = 0.2e-3
_PER_CONNECTION = 10_000
_HELD = 10_000_000
_ADDED_MUTATION = 30e-3

_GOAL_CALLS = ("ApiVersions", "Metadata of a topic")

_METHOD = """\
One run uses a broker and three `mutation-quota gateway` processes, each in front of its own listener. The first gateway
rewrites addresses, the second serves a listener that advertises the gateway's address
(`gateway.advertised_by=brokers`), and the third serves a listener with SASL. All clients use sockets and `quota.wire`,
without a client library. The routes to the broker alternate, so that other load on the machine affects all of them.
Processor times are those of the gateway process alone, as counted by the kernel.

- *Calls*: {calls:,} calls on each route, one at a time, after 200 that do not count. The gateway forwards ListOffsets
  by its header alone, and parses the requests and responses of Metadata and ApiVersions.
- *Concurrent calls*: {connections} connections, each with 1 or 64 calls in flight. A gateway is one process with one
  event loop; the client and the broker use the same cores.
- *Transfers*: one Produce request of {batches} partitions with a batch of 1 MB each, and one Fetch that reads them; the
  medians of {transfers}. *Memory growth* is the largest increase of the gateway's resident memory.
- *Idle connections*: {open:,} of them, each after authentication and one call. Memory is that of the gateway process,
  which holds two sockets per connection; the kernel's memory for sockets is not included.
- *Mutations*: the medians of {mutations}. A stand-in for the enforcing job decides immediately, with the same code but
  without Spark, because the seconds that a micro-batch may take would hide the gateway's share. *Decision* is the time
  from the request in its topic to the decision in its topic, measured by a consumer like the gateway's, and is
  subtracted from each call. *Rest* is the work of the cluster, which validates a create before it is decided, and of
  the gateway, which includes writing the request.
- *Metadata*: one Metadata response with {topics:,} topics with {partitions} partitions each.
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of the measurement; times in seconds."""

    calls: int
    rounds: int
    """Rounds of concurrent calls, each of `seconds`."""
    seconds: float
    transfers: int
    connections: int
    idle: float
    mutations: int
    topics: int
    listings: int


@dataclass(frozen=True, slots=True)
class Figures:
    """All figures; the keys of inner mappings are those of `Ground.routes`."""

    plan: Plan
    calls: Mapping[str, Mapping[str, Latency]]
    at_once: Mapping[tuple[str, int], Mapping[str, Throughput]]
    transfers: Mapping[str, Mapping[str, Transfer]]
    idle: Sequence[Idle]
    mutations: Sequence[Mutation]
    listings: Mapping[str, Listing]
    load: tuple[float, float]
    """Load average over the last minute, before and after the measurement."""


def tables(figures: Figures) -> tuple[Table, ...]:
    """Return the tables in their order."""
    return (
        _goals(figures),
        _calls(figures),
        _at_once(figures),
        _transfers(figures),
        _idle(figures),
        _mutations(figures),
        _listings(figures),
    )


def page(figures: Figures) -> str:
    """Return the page in Markdown."""
    goals, *others = tables(figures)
    plan = figures.plan
    method = _METHOD.format(
        calls=plan.calls,
        connections=CONNECTIONS,
        batches=BATCHES,
        transfers=plan.transfers,
        open=plan.connections,
        mutations=plan.mutations,
        topics=plan.topics,
        partitions=PARTITIONS,
    )
    shown = "\n\n".join(f"## {table.title[0].upper()}{table.title[1:]}\n\n{table.markdown()}" for table in others)
    where = machine()
    ran = (
        f"{where['cores']} cores ({where['processor']}) shared by client, gateway, broker and other programs (load "
        f"average over the last minute {figures.load[0]:.1f} before and {figures.load[1]:.1f} after), "
        f"{where['system']}, Python {where['python']}, {where['java']}."
    )
    return f"""\
# What the gateway costs

`make gateway-cost` repeats these measurements and writes this page. No test asserts these times.

{goals.markdown()}

{shown}

## How it was measured

{method}
{textwrap.fill(ran, _WIDTH, break_long_words=False, break_on_hyphens=False)}
"""


def _goals(figures: Figures) -> Table:
    """Return the goals with the measured values."""
    added = max(
        route.p50 - routes["direct"].p50
        for name, routes in figures.calls.items()
        if name in _GOAL_CALLS
        for route in routes.values()
    )
    each = max(idle.bytes_each for idle in figures.idle)
    count = figures.idle[0].connections
    peak = max(route.peak or 0 for route in figures.transfers["produce"].values())
    create = figures.mutations[0]
    rows = (
        ("p50 of a forwarded call: at most 0.2 ms above a direct one", f"{added * 1e3:.2f} ms", added <= _ADDED_CALL),
        (f"{count:,} idle connections: at most 10 KB each", f"{each / 1e3:.1f} KB", each <= _PER_CONNECTION),
        ("a produce request of 90 MB is not buffered", f"memory rises by {peak / 1e6:.1f} MB", peak < _HELD),
        (
            "a create: at most 30 ms in addition to the decision",
            f"{create.added * 1e3:.0f} ms above a direct one",
            create.added <= _ADDED_MUTATION,
        ),
    )
    return Table(
        "goals", ("goal", "measured", "met"), tuple((*row[:2], "yes" if row[2] else "**no**") for row in rows), 3
    )


def _calls(figures: Figures) -> Table:
    rows = [
        (
            name,
            route,
            f"{each.p50 * 1e3:.3f}",
            f"{each.p99 * 1e3:.2f}",
            NOTHING if each is routes["direct"] else f"{(each.p50 - routes['direct'].p50) * 1e3:+.3f}",
        )
        for name, routes in figures.calls.items()
        for route, each in routes.items()
    ]
    return Table("one call at a time, ms", ("call", "route", "p50", "p99", "p50 above direct"), tuple(rows), 2)


def _at_once(figures: Figures) -> Table:
    rows = [
        (name, route, str(in_flight), f"{each.per_second:,.0f}", _micro(each.cpu_seconds))
        for (name, in_flight), routes in figures.at_once.items()
        for route, each in routes.items()
    ]
    headings = ("call", "route", "in flight", "calls per second", "gateway CPU per call, µs")
    return Table(f"concurrent calls, over {CONNECTIONS} connections", headings, tuple(rows), 2)


def _transfers(figures: Figures) -> Table:
    rows = [
        (
            f"{name} of {each.bytes / 1e6:.0f} MB",
            route,
            f"{each.megabytes_per_second:,.0f}",
            NOTHING if each.cpu_seconds is None else f"{each.cpu_seconds / each.bytes * 1e9:.2f}",
            NOTHING if each.peak is None else f"{each.peak / 1e6:.1f}",
        )
        for name, routes in figures.transfers.items()
        for route, each in routes.items()
    ]
    headings = ("transfer", "route", "MB/s", "gateway CPU per MB, ms", "gateway memory growth, MB")
    return Table("one large produce request and one large fetch request", headings, tuple(rows), 2)


def _idle(figures: Figures) -> Table:
    idle = figures.idle
    rows = (
        ("connections", *(f"{each.connections:,}" for each in idle)),
        (
            "gateway CPU to open one connection, ms",
            *(f"{each.opening_cpu / each.connections * 1e3:.2f}" for each in idle),
        ),
        ("time to open all, s", *(f"{each.opened_in:.1f}" for each in idle)),
        ("gateway memory before, MB", *(f"{each.memory_before / 1e6:.1f}" for each in idle)),
        ("gateway memory with the connections, MB", *(f"{each.memory / 1e6:.1f}" for each in idle)),
        ("memory per connection, KB", *(f"{each.bytes_each / 1e3:.1f}" for each in idle)),
        ("CPU while idle, % of a core", *(f"{each.idle_cpu / each.idle_seconds * 100:.1f}" for each in idle)),
        ("p50 of a call before they are opened, ms", *(f"{each.call_alone * 1e3:.3f}" for each in idle)),
        ("p50 of a call while they are open, ms", *(f"{each.call_among * 1e3:.3f}" for each in idle)),
        ("gateway memory after they are closed, MB", *(f"{each.memory_after / 1e6:.1f}" for each in idle)),
    )
    return Table("idle connections", ("", *(each.name for each in idle)), rows, 1)


def _mutations(figures: Figures) -> Table:
    rows = [
        (
            f"{each.name} {'topic' if each.name.endswith(' 1') else 'topics'}",
            *(
                f"{seconds * 1e3:.1f}"
                for seconds in (each.direct, each.through, each.decision, each.rest, each.added, each.cpu)
            ),
        )
        for each in figures.mutations
    ]
    headings = ("request", "direct", "gateway", "decision", "rest", "rest above direct", "gateway CPU")
    return Table("mutations, ms", headings, tuple(rows), 1)


def _listings(figures: Figures) -> Table:
    rows = [
        (
            route,
            f"{each.bytes / 1e3:,.0f}",
            f"{each.seconds * 1e3:.1f}",
            NOTHING if each.cpu_seconds is None else f"{each.cpu_seconds * 1e3:.1f}",
        )
        for route, each in figures.listings.items()
    ]
    headings = ("route", "answer, KB", "p50, ms", "gateway CPU, ms")
    return Table(f"Metadata of {figures.plan.topics:,} topics with {PARTITIONS} partitions", headings, tuple(rows), 1)


def _micro(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{seconds * 1e6:.0f}"
