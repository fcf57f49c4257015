"""A Kafka Streams application, whose admin client creates its internal topics."""

from functools import cache
from pathlib import Path

from tests.evidence.gateway.ground import Ground, create_topics
from tests.evidence.gateway.java_programs import JavaPrograms
from tests.evidence.gateway.observation import Observation
from tests.evidence.gateway.program import Program, Unavailable
from tests.evidence.gateway.sides import Side


def _prepare(on: Ground) -> None:
    clients = on.jars.parent / "clients"
    if not list(clients.glob("kafka-streams-*.jar")):
        raise Unavailable("kafka-streams is not installed; `make clients` does it")
    create_topics(on, {side.topic("words"): 3 for side in on.sides})
    _compiled(on.folder / "streams", on.jars, clients)


@cache
def _compiled(folder: Path, jars: Path, clients: Path) -> JavaPrograms:
    return JavaPrograms(folder, ("Side", "Observer", "StreamsCase"), jars, clients)


def _play(on: Ground, side: Side, first: int) -> list[Observation]:
    program = _compiled(on.folder / "streams", on.jars, on.jars.parent / "clients")
    return program.observe(side, "StreamsCase", str(first), side.broker, str(on.folder / f"{side.name}-streams"))


STREAMS = Program(
    name="Kafka Streams",
    about="an application that counts words, whose `bootstrap.servers` is the broker on both sides, and "
    "`admin.bootstrap.servers` the gateway on its side; it waits until its internal topics are created",
    users=1,
    play=_play,
    prepare=_prepare,
    early_ms=3000,
    late_ms=10_000,  # includes the start of the application
)
