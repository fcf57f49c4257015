"""Records that Kafka's own performance tools produce and consume, direct and through a gateway in turns."""

import itertools
import re
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from confluent_kafka.admin import NewTopic

from jobs.sandbox.broker import HOST
from quota.errors import MutationQuotaError
from tests.evidence.gateway.cost.routes import DIRECT, Route, Routes, Row
from tests.evidence.gateway.cost.size import Size
from tests.support.java_source import JavaProgram

RECORD_BYTES = 1000
TOOLS = 2
"""The number of producers, and then of consumers, at once."""
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
    compared = [(routes.direct, routes.plain), (direct_tls, routes.encrypting)]
    turns: dict[int, list[_Turn]] = defaultdict(list)
    with ExitStack() as stack:
        tools = [stack.enter_context(JavaProgram.running(_PROGRAM, where.jars, _JAVA)) for _ in range(TOOLS)]
        _turn(routes.direct, "records-first", size.records, tools)  # compiles them
        for number in range(size.rounds):
            for way in itertools.chain(*compared):
                turns[way.port].append(_turn(way, f"records-{number}-{way.port}", size.records, tools))
    megabytes = TOOLS * size.records * RECORD_BYTES / 1e6
    rows = []
    for direct, gateway in compared:
        for way in (direct, gateway):
            own = turns[way.port]
            rounds = list(zip(own, turns[direct.port], strict=True))
            rows.append(
                {
                    "encryption": "TLS" if way.tls else "plaintext",
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
