"""Clients in Java, Go, JavaScript and, of those in Python, aiokafka: programs of their own."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from quota.errors import MutationQuotaError
from tests.evidence.gateway.conformance.program import Difference, Observation, Observations, Program, Unavailable
from tests.evidence.gateway.conformance.sides import Side, Sides
from tests.evidence.gateway.ground import Ground
from tests.support.checkout import CHECKOUT
from tests.support.java_source import compile_java
from tests.support.programs import JVM_OPTIONS

_JAVA, _GO, _JAVASCRIPT, _PYTHON = (Path(__file__).parent / name for name in ("java", "go", "javascript", "python"))
_JARS = CHECKOUT / ".jars" / "clients"
_OLD_CLIENT = "OldClient.java"

_LOG4J = """\
appender.console.type=Console
appender.console.name=console
appender.console.target=SYSTEM_ERR
appender.console.follow=true
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%p %m%n%throwable{short.message}%n
rootLogger.level=WARN
rootLogger.appenderRef.console.ref=console
"""

_KAFKAJS = "2.2.4"
_SECONDS = 300
_REJECTED = "ThrottlingQuotaExceededException: The throttling quota has been exceeded."


def compiled(where: Ground) -> list[str]:
    """Compile the Java programs, and return the command that runs them.

    Raises:
        MutationQuotaError: The compiler reports an error.
    """
    folder = where.folder / "java"
    services = folder / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.apache.kafka.connect.source.SourceConnector").write_text("ConnectSource\n")
    (folder / "log4j2.properties").write_text(_LOG4J)
    streams = streams_jars()
    jars = ":".join([f"{where.jars}/*", *streams])
    left_out = {_OLD_CLIENT, *(() if streams else ("StreamsCase.java",))}
    compile_java([file for file in sorted(_JAVA.glob("*.java")) if file.name not in left_out], jars, folder)
    java = ["java", *JVM_OPTIONS.split(), "-Xmx256m", f"-Dlog4j2.configurationFile={folder}/log4j2.properties"]
    return [*java, "-cp", f"{folder}:{jars}", "Clients", str(folder)]


def played_in_java(pair: Sides, java: Sequence[str], firsts: Mapping[str, int]) -> dict[str, Observations]:
    """Run Java programs on both sides in one JVM, given the numbers of their first users.

    Raises:
        MutationQuotaError: One failed.
    """
    addresses = (pair.direct.address, pair.gateway.address)
    programs = [f"{main}={first}" for main, first in firsts.items()]
    lines = _observed("java", [*java, *addresses, *programs])
    return {
        main: tuple(
            [_observation(side, line) for line in lines if (line["program"], line["side"]) == (main, side.name)]
            for side in pair.both
        )
        for main in firsts
    }


def streams_jars() -> list[str]:
    """Return the jar of Kafka Streams; nothing if it is not installed."""
    return [str(jar) for jar in _JARS.glob("kafka-streams-*.jar")]


def _observation(side: Side, line: Mapping[str, Any]) -> Observation:
    """Return an observation whose texts do not contain the name of the side."""
    own = {name: value for name, value in line.items() if name not in {"program", "side"}}
    texts = {name: side.plain(own.get(name, "")) for name in ("seen", "detail")}
    return Observation(**{**own, **texts})


def _observed(name: str, command: Sequence[str | Path]) -> list[dict[str, Any]]:
    """Run a program that writes its observations as lines of JSON.

    Raises:
        MutationQuotaError: The program failed.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode:
        raise MutationQuotaError(f"{name} ended with {done.returncode}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


_building = Lock()


def _go_client(name: str, library: str, module: str) -> Program:
    """Return the program of a client in Go; they are one binary."""

    def play(pair: Sides, first: int) -> Observations:
        binary = pair.ground.folder / "clients"
        with _building:
            if not binary.exists():
                _run("go", "build", "-trimpath", "-o", str(binary), ".", folder=_GO)
        return _on_both(pair, [binary, library], first)

    def version() -> str:
        (release,) = re.findall(rf"{module} (v\S+)", (_GO / "go.mod").read_text())
        return release

    return _program(name, library, play, version)


def _kafkajs(pair: Sides, first: int) -> Observations:
    folder = pair.ground.folder / "kafkajs"
    folder.mkdir()
    _run("npm", "install", "--silent", "--no-fund", f"kafkajs@{_KAFKAJS}", folder=folder)
    script = Path(shutil.copy(_JAVASCRIPT / "kafkajs.js", folder))
    return _on_both(pair, ["node", script], first)


def _aiokafka(release: str) -> Program:
    """Return the program of a release of aiokafka, which is installed into a virtual environment of its own."""
    prefix = f"aiokafka-{release}"

    def play(pair: Sides, first: int) -> Observations:
        python = pair.ground.folder / prefix / "bin" / "python"
        _run(sys.executable, "-m", "venv", str(python.parents[1]), folder=pair.ground.folder)
        pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        _run(*pip, f"aiokafka=={release}", folder=pair.ground.folder)
        return _on_both(pair, [python, _PYTHON / "aiokafka_client.py", prefix], first)

    return _program(f"aiokafka {release}", prefix, play, lambda: release)


def _java_client(release: str) -> Program:
    """Return the program of a release of Kafka's own clients, in a JVM of its own."""
    prefix = f"java-{release}"

    def play(pair: Sides, first: int) -> Observations:
        jar = _JARS / f"kafka-clients-{release}.jar"
        if not jar.exists():
            raise Unavailable(f"kafka-clients {release} is not installed; `make clients` does it")
        jars = ":".join(map(str, [jar, *pair.ground.jars.glob("slf4j-api-*.jar")]))
        command = ["java", *JVM_OPTIONS.split(), "-Xmx128m", "-cp", jars, str(_JAVA / _OLD_CLIENT), prefix]
        return _on_both(pair, command, first)

    return _program(f"kafka-clients {release}", prefix, play, lambda: release)


def _run(*command: str, folder: Path) -> None:
    """Run a command that builds or installs a client.

    Raises:
        Unavailable: It is missing, or has failed.
    """
    if shutil.which(command[0]) is None:
        raise Unavailable(f"{command[0]} is not installed")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {done.stderr[-2000:]}")


def _program(name: str, prefix: str, play: Callable[[Sides, int], Observations], version: Callable[[], str]) -> Program:
    """Return a program that creates, grows and deletes topics, produces and fetches; aiokafka does not grow them."""
    topics = {"grown-a": 1, "grown-b": 1, "deleted-a": 11, "deleted-b": 1, "data": 1}
    names = {f"{prefix}-{topic}": partitions for topic, partitions in topics.items()}
    return Program(name, users=4, play=play, topics=names, version=version)


def _on_both(pair: Sides, command: Sequence[str | Path], first: int) -> Observations:
    """Run a command on both sides, with the name and the address of each, and the number of its first user."""

    def play(side: Side) -> list[Observation]:
        lines = _observed(str(command[-1]), [*command, side.name, side.address, str(first)])
        return [_observation(side, line) for line in lines]

    with ThreadPoolExecutor(2) as pool:
        direct, gateway = pool.map(play, pair.both)
    return direct, gateway


_VALIDATED = "`validate_only`"

ADMIN_CLIENT = Program(
    "Java AdminClient",
    users=12,
    main="AdminCases",
    topics={"grow-a": 1, "grow-b": 1, "delete-a": 11, "delete-b": 1, "denied-grow": 1},
    differences={
        ("validateOnly, in debt", "validate"): Difference(_VALIDATED, f"validate-b: {_REJECTED}", "validate-b: ok"),
        ("validateOnly, with a full bucket", "create"): Difference(_VALIDATED, f"free-b: {_REJECTED}", "free-b: ok"),
    },
    differing_topics=("free-b",),
)

STREAMS = Program(
    "Kafka Streams",
    users=1,
    main="StreamsCase",
    topics={"words": 3},
)

CONNECT_WORKER = Program(
    "Kafka Connect",
    users=1,
    main="ConnectCase",
)

INSTALLED = (
    *map(_java_client, ("2.0.1", "2.8.2", "3.9.2", "4.2.2")),
    *map(_aiokafka, ("0.12.0", "0.14.0")),
    _go_client("Sarama", "sarama", "IBM/sarama"),
    _go_client("kafka-go", "kafka-go", "segmentio/kafka-go"),
    _program("KafkaJS", "kafkajs", _kafkajs, lambda: _KAFKAJS),
)
"""Clients that are copied (`make clients`), installed or built first."""
