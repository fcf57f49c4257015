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
One run: a broker, and three processes `mutation-quota gateway` in front of it, each on a listener. The first rewrites
addresses, the second stands in front of a listener that advertises it (`gateway.advertised_by=brokers`), and the third
in front of a listener with SASL. All clients are the same: sockets and `quota.wire`, without a client library.
The ways take turns, so that what else the machine does falls upon all of them. Processor times are those of the
gateway alone, by the kernel's count.

- *Calls*: {calls:,} calls by each way, one at a time, after 200 that do not count. ListOffsets is passed on by
  its header alone; Metadata and ApiVersions are looked into, as requests and as answers.
- *Calls at once*: {connections} connections, each with 1 or 64 calls in flight. A gateway is one process with one event
  loop; the client and the broker work on the same cores.
- *Transfers*: one Produce request of {batches} partitions with a batch of 1 MB each, and one Fetch that reads them; the
  medians of {transfers}. Memory is how far the resident memory of the gateway rose, at most.
- *Idle connections*: {open:,} of them, each after its authentication and one call. Memory is that of the gateway, which
  holds two sockets for each; what the kernel keeps for sockets is not in it.
- *Mutations*: the medians of {mutations}. In place of the enforcing job a stand-in decides at once, by the same code
  without Spark, so that what the gateway adds is not lost in the seconds that a micro-batch may take. The decision is
  timed from the request in its topic to the decision in its topic, by a consumer like the gateway's; it is subtracted
  from each call. The rest is the cluster's work, which has to validate a create before it is decided, and the
  gateway's, which includes writing the request.
- *All topics*: Metadata of {topics:,} topics with {partitions} partitions each.
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of the measurement; times in seconds."""

    calls: int
    rounds: int
    """Turns of calls at once, each of so many `seconds`."""
    seconds: float
    transfers: int
    connections: int
    idle: float
    mutations: int
    topics: int
    listings: int


@dataclass(frozen=True, slots=True)
class Figures:
    """All that was measured; the keys of inner mappings are the ways of `Ground.routes`."""

    plan: Plan
    calls: Mapping[str, Mapping[str, Latency]]
    at_once: Mapping[tuple[str, int], Mapping[str, Throughput]]
    transfers: Mapping[str, Mapping[str, Transfer]]
    idle: Sequence[Idle]
    mutations: Sequence[Mutation]
    listings: Mapping[str, Listing]
    load: tuple[float, float]
    """Load of the last minute, before and after."""


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
        f"{where['cores']} cores ({where['processor']}) that client, gateway, broker and other programs share (load of "
        f"the last minute {figures.load[0]:.1f} before and {figures.load[1]:.1f} after), {where['system']}, Python "
        f"{where['python']}, {where['java']}."
    )
    return f"""\
# What the gateway costs

Written by `make gateway-cost`, which does it again. No test asserts these times.

{goals.markdown()}

{shown}

## How it was measured

{method}
{textwrap.fill(ran, _WIDTH, break_long_words=False, break_on_hyphens=False)}
"""


def _goals(figures: Figures) -> Table:
    """Return the goals beside what was measured."""
    added = max(
        way.p50 - ways["direct"].p50
        for name, ways in figures.calls.items()
        if name in _GOAL_CALLS
        for way in ways.values()
    )
    each = max(idle.bytes_each for idle in figures.idle)
    count = figures.idle[0].connections
    peak = max(way.peak or 0 for way in figures.transfers["produce"].values())
    create = figures.mutations[0]
    rows = (
        ("a call that is passed on, p50: at most 0.2 ms more", f"{added * 1e3:.2f} ms", added <= _ADDED_CALL),
        (f"{count:,} idle connections: at most 10 KB each", f"{each / 1e3:.1f} KB", each <= _PER_CONNECTION),
        ("a produce of 90 MB is not held", f"memory rises by {peak / 1e6:.1f} MB", peak < _HELD),
        (
            "a create: the decision plus at most 30 ms",
            f"{create.added * 1e3:.0f} ms beside a direct one",
            create.added <= _ADDED_MUTATION,
        ),
    )
    return Table(
        "goals", ("goal", "measured", "reached"), tuple((*row[:2], "yes" if row[2] else "**no**") for row in rows), 3
    )


def _calls(figures: Figures) -> Table:
    rows = [
        (
            name,
            way,
            f"{each.p50 * 1e3:.3f}",
            f"{each.p99 * 1e3:.2f}",
            NOTHING if each is ways["direct"] else f"{(each.p50 - ways['direct'].p50) * 1e3:+.3f}",
        )
        for name, ways in figures.calls.items()
        for way, each in ways.items()
    ]
    return Table("a call at a time, ms", ("call", "way", "p50", "p99", "p50 beside direct"), tuple(rows), 2)


def _at_once(figures: Figures) -> Table:
    rows = [
        (name, way, str(in_flight), f"{each.per_second:,.0f}", _micro(each.cpu_seconds))
        for (name, in_flight), ways in figures.at_once.items()
        for way, each in ways.items()
    ]
    headings = ("call", "way", "in flight", "calls a second", "gateway's CPU a call, µs")
    return Table(f"calls at once, over {CONNECTIONS} connections", headings, tuple(rows), 2)


def _transfers(figures: Figures) -> Table:
    rows = [
        (
            f"{name} of {each.bytes / 1e6:.0f} MB",
            way,
            f"{each.megabytes_per_second:,.0f}",
            NOTHING if each.cpu_seconds is None else f"{each.cpu_seconds / each.bytes * 1e9:.2f}",
            NOTHING if each.peak is None else f"{each.peak / 1e6:.1f}",
        )
        for name, ways in figures.transfers.items()
        for way, each in ways.items()
    ]
    headings = ("transfer", "way", "MB/s", "gateway's CPU a MB, ms", "gateway's memory rises by, MB")
    return Table("a produce and a fetch of one request each", headings, tuple(rows), 2)


def _idle(figures: Figures) -> Table:
    idle = figures.idle
    rows = (
        ("connections", *(f"{each.connections:,}" for each in idle)),
        ("gateway's CPU to open one, ms", *(f"{each.opening_cpu / each.connections * 1e3:.2f}" for each in idle)),
        ("all open after, s", *(f"{each.opened_in:.1f}" for each in idle)),
        ("gateway's memory before, MB", *(f"{each.memory_before / 1e6:.1f}" for each in idle)),
        ("with them, MB", *(f"{each.memory / 1e6:.1f}" for each in idle)),
        ("memory of one, KB", *(f"{each.bytes_each / 1e3:.1f}" for each in idle)),
        ("CPU while idle, % of a core", *(f"{each.idle_cpu / each.idle_seconds * 100:.1f}" for each in idle)),
        ("a call before they were opened, p50, ms", *(f"{each.call_alone * 1e3:.3f}" for each in idle)),
        ("a call among them, p50, ms", *(f"{each.call_among * 1e3:.3f}" for each in idle)),
        ("memory when they are closed, MB", *(f"{each.memory_after / 1e6:.1f}" for each in idle)),
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
    headings = ("request", "direct", "gateway", "of it decision", "the rest", "rest beside direct", "gateway's CPU")
    return Table("mutations, ms", headings, tuple(rows), 1)


def _listings(figures: Figures) -> Table:
    rows = [
        (
            way,
            f"{each.bytes / 1e3:,.0f}",
            f"{each.seconds * 1e3:.1f}",
            NOTHING if each.cpu_seconds is None else f"{each.cpu_seconds * 1e3:.1f}",
        )
        for way, each in figures.listings.items()
    ]
    headings = ("way", "answer, KB", "p50, ms", "gateway's CPU, ms")
    return Table(f"Metadata of {figures.plan.topics:,} topics with {PARTITIONS} partitions", headings, tuple(rows), 1)


def _micro(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{seconds * 1e6:.0f}"
