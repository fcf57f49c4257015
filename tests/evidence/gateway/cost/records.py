"""Records that Kafka's own performance tools produce and consume, direct and through a gateway in turns."""

import itertools
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from confluent_kafka.admin import NewTopic

from jobs.sandbox.broker import HOST
from quota.errors import MutationQuotaError
from tests.evidence.gateway.cost.routes import DIRECT, Route, Routes, Row
from tests.evidence.gateway.cost.size import Size
from tests.support.java_source import JavaProgram
from tests.support.programs import child_processes

RECORD_BYTES = 1000
TOOLS = 2
"""The number of producers, and then of consumers, at once."""
APART = "TLS, the gateway on one core, all else on the other"
"""The encryption of rows that show what the gateway takes from the broker and the clients when they share cores."""
PACED = 2000
"""The records per second of the producer whose latency is measured."""

_PROGRAM = Path(__file__).with_name("Tools.java")
_JAVA = "-XX:+UseSerialGC"
"""With the second compiler, as Kafka's own scripts start the tools."""
_PARTITIONS = 6
_SECONDS = 300
_SENT = re.compile(r"^(\d+) records sent, .*?\(([\d.]+) MB/sec\).* (\d+) ms 50th, .* (\d+) ms 99th", re.MULTILINE)
_FETCHED_MB_A_SECOND = 8
"""The column of the consumer's result; its column 2 is of a time that includes joining the group."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """What one turn of one way moved."""

    produced: float
    """MB/s, as `consumed`."""
    consumed: float
    p50_ms: float
    p99_ms: float
    producing_cpu: float
    """Processor time of the gateway [s], as `consuming_cpu`."""
    consuming_cpu: float


def records(routes: Routes, size: Size) -> list[Row]:
    """Measure each way in turns, without and with TLS; ratios are those to the direct way of the same round.

    Raises:
        MutationQuotaError: A tool failed, or moved less than all records.
    """
    where = routes.direct.ground
    direct_tls = Route(DIRECT, where, where.tls, tls=where.trusting())
    compared = {
        "plaintext": (routes.direct, routes.plain),
        "TLS": (direct_tls, routes.encrypting),
        APART: (direct_tls, routes.encrypting),
    }
    turns: dict[tuple[str, int], list[_Turn]] = defaultdict(list)
    with ExitStack() as stack:
        tools = [stack.enter_context(JavaProgram.running(_PROGRAM, where.jars, _JAVA)) for _ in range(TOOLS)]
        _turn(routes.direct, "records-first", size.records, tools)  # compiles them
        for number, (kind, ways) in itertools.product(range(size.rounds), compared.items()):
            with _apart(ways[1]) if kind == APART else nullcontext():
                for way in ways:
                    topic = f"records-{number}-{way.port}-{kind == APART}"
                    turns[kind, way.port].append(_turn(way, topic, size.records, tools))
    megabytes = TOOLS * size.records * RECORD_BYTES / 1e6
    rows = []
    for kind, (direct, gateway) in compared.items():
        for way in (direct, gateway):
            own = turns[kind, way.port]
            rounds = list(zip(own, turns[kind, direct.port], strict=True))
            rows.append(
                {
                    "encryption": kind,
                    "route": "one gateway" if way.meter else DIRECT,
                    "produced_mb_s": median(turn.produced for turn in own),
                    "produced_of_direct": median(turn.produced / base.produced for turn, base in rounds),
                    "consumed_mb_s": median(turn.consumed for turn in own),
                    "consumed_of_direct": median(turn.consumed / base.consumed for turn, base in rounds),
                    "p50_ms": median(turn.p50_ms for turn in own),
                    "p99_ms": median(turn.p99_ms for turn in own),
                    "producing_cpu_ms": _per_megabyte(way, [turn.producing_cpu for turn in own], megabytes),
                    "consuming_cpu_ms": _per_megabyte(way, [turn.consuming_cpu for turn in own], megabytes),
                }
            )
    return rows


@contextmanager
def _apart(gateway: Route) -> Iterator[None]:
    """Give the gateway a core inside the block, and the broker and all clients another one."""
    everything = os.sched_getaffinity(0)
    processes = child_processes(os.getpid())
    _place(processes, {min(everything)})
    _place([gateway.meter.pid] if gateway.meter else [], {max(everything)})
    try:
        yield
    finally:
        _place(processes, everything)


def _place(processes: Sequence[int], cores: set[int]) -> None:
    """Have the threads of processes run on these cores."""
    for thread in itertools.chain(*(Path(f"/proc/{process}/task").iterdir() for process in processes)):
        with suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(int(thread.name), cores)


def _per_megabyte(way: Route, cpu: list[float], megabytes: float) -> float | None:
    """Return the gateway's processor time for a megabyte [ms]."""
    return median(cpu) / megabytes * 1e3 if way.meter else None


def _turn(way: Route, topic: str, count: int, tools: Sequence[JavaProgram]) -> _Turn:
    admin = way.ground.admin
    admin.create_topics([NewTopic(topic, _PARTITIONS)])[topic].result(_SECONDS)
    before = way.cpu_seconds()
    outputs = _run(way, tools, [_produce(topic, count, -1) for _ in tools])
    between = way.cpu_seconds()
    produced = sum(_sent(output, count)[0] for output in outputs)
    outputs = _run(way, tools, [_consume(topic, count, number) for number, _ in enumerate(tools)])
    after = way.cpu_seconds()
    consumed = sum(_fetched(output, count) for output in outputs)
    few = count // 10
    (output,) = _run(way, tools[:1], [_produce(topic, few, PACED)])
    _, p50, p99 = _sent(output, few)
    admin.delete_topics([topic])[topic].result(_SECONDS)
    return _Turn(produced, consumed, p50, p99, between - before, after - between)


def _produce(topic: str, count: int, throughput: int) -> list[str]:
    given = ["--topic", topic, "--num-records", str(count), "--record-size", str(RECORD_BYTES)]
    return ["ProducerPerformance", *given, "--throughput", str(throughput)]


def _consume(topic: str, count: int, number: int) -> list[str]:
    given = ["--topic", topic, "--num-records", str(count), "--hide-header"]
    return ["ConsumerPerformance", *given, "--group", f"{topic}-{number}"]


def _run(way: Route, tools: Sequence[JavaProgram], commands: list[list[str]]) -> list[str]:
    """Run tools at once; return their outputs."""
    server = ["--bootstrap-server", f"{HOST}:{way.port}", "--command-config", str(_config(way))]
    for tool, (name, *given) in zip(tools, commands, strict=True):
        tool.write("\t".join([f"org.apache.kafka.tools.{name}", *server, *given]))
    return [tool.read().replace("\t", "\n") for tool in tools]


def _config(way: Route) -> Path:
    """Write the properties of the tools; an idempotent producer can fail for ever on a topic that was just created."""
    where = way.ground
    path = where.folder / f"tools-{way.port}.properties"
    trusted = f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={where.authority.path}\n"
    path.write_text("enable.idempotence=false\n" + (trusted if way.tls else ""))
    return path


def _sent(output: str, count: int) -> tuple[float, float, float]:
    """Return a producer's MB/s, and the median and the 99th percentile of its latency [ms]."""
    (sent, rate, p50, p99) = _SENT.findall(output)[-1]
    if int(sent) != count:
        raise MutationQuotaError(f"{sent} of {count} records were produced: {output}")
    return float(rate) * 2**20 / 1e6, float(p50), float(p99)


def _fetched(output: str, count: int) -> float:
    """Return a consumer's MB/s."""
    values = output.strip().splitlines()[-1].split(", ")
    if int(values[4]) < count:
        raise MutationQuotaError(f"{values[4]} of {count} records were consumed: {output}")
    return float(values[_FETCHED_MB_A_SECOND]) * 2**20 / 1e6
