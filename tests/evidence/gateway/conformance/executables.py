"""Programs in Java, Go and old Python clients: AdminClient, kafka-topics.sh, Streams, Connect, franz-go and others."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from quota.errors import MutationQuotaError
from tests.evidence.gateway.conformance.program import Difference, Observation, Observations, Program, Unavailable
from tests.evidence.gateway.conformance.sides import Side, Sides
from tests.evidence.gateway.ground import Ground
from tests.support.checkout import CHECKOUT
from tests.support.programs import JVM_OPTIONS

_JAVA, _GO, _PYTHON = (Path(__file__).parent / name for name in ("java", "go", "python"))
_STREAMS_JARS = CHECKOUT / ".jars" / "clients"

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
    jars = f"{where.jars}/*:{_STREAMS_JARS}/*"
    files = [str(file) for file in sorted(_JAVA.glob("*.java")) if has_streams() or "Streams" not in file.name]
    command = ["javac", "-J-XX:TieredStopAtLevel=1", "-proc:none", "-nowarn", "-d", str(folder), "-cp", jars, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MutationQuotaError(f"javac: {done.stderr}")
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


def has_streams() -> bool:
    """Return whether Kafka Streams is installed."""
    return any(_STREAMS_JARS.glob("kafka-streams-*.jar"))


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


def _franz(pair: Sides, first: int) -> Observations:
    if shutil.which("go") is None:
        raise Unavailable("Go is not installed")
    binary = pair.ground.folder / "franz"
    command = ["go", "build", "-trimpath", "-o", str(binary), "."]
    done = subprocess.run(command, cwd=_GO, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MutationQuotaError(f"go build: {done.stderr[-2000:]}")

    return _on_both(pair, [binary], first)


def _on_both(pair: Sides, command: Sequence[str | Path], first: int) -> Observations:
    """Run a command on both sides, with the name and the address of each, and the number of its first user."""

    def play(side: Side) -> list[Observation]:
        lines = _observed(str(command[-1]), [*command, side.name, side.address, str(first)])
        return [_observation(side, line) for line in lines]

    with ThreadPoolExecutor(2) as pool:
        direct, gateway = pool.map(play, pair.both)
    return direct, gateway


def _old_client(requirement: str, script: str, prefix: str) -> Program:
    """Return the program of an old Python client, which is installed into a virtual environment of its own."""
    name, _, release = requirement.partition("==")

    def play(pair: Sides, first: int) -> Observations:
        python = pair.ground.folder / prefix / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"{requirement} cannot be installed: {done.stderr[-500:]}")
        return _on_both(pair, [python, _PYTHON / script], first)

    topics = {"deleted-a": 11, "deleted-b": 1, "data": 1}
    return Program(
        f"{name} {release}",
        users=3,
        play=play,
        topics={f"{prefix}-{topic}": partitions for topic, partitions in topics.items()},
        version=lambda: release,
    )


def _franz_version() -> str:
    (franz,) = re.findall(r"franz-go (v\S+)", (_GO / "go.mod").read_text())
    go = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout.strip()
    return f"{franz} ({go})"


_VALIDATED = "`validate_only` through the gateway"

ADMIN_CLIENT = Program(
    "Java AdminClient",
    users=18,
    main="AdminCases",
    topics={"grow-a": 1, "grow-b": 1, "delete-a": 11, "delete-b": 1, "by-id-a": 11, "by-id-b": 1, "denied-grow": 1},
    differences={
        ("validateOnly, in debt", "validate"): Difference(_VALIDATED, f"validate-b: {_REJECTED}", "validate-b: ok"),
        ("validateOnly, with a full bucket", "create"): Difference(_VALIDATED, f"free-b: {_REJECTED}", "free-b: ok"),
    },
    differing_topics=("free-b",),
)

TOPIC_COMMAND = Program(
    "kafka-topics.sh",
    users=4,
    main="TopicCommandCases",
    topics={"sh-grown-a": 1, "sh-grown-b": 1, "sh-deleted-a": 11, "sh-deleted-b": 1},
    early_ms=10_000,  # a rejected --alter waits for the mute or not: it makes two calls at once
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

FRANZ_GO = Program(
    "franz-go",
    users=3,
    play=_franz,
    topics={"go-grown-a": 1, "go-grown-b": 1, "go-deleted-a": 11, "go-deleted-b": 1},
    version=_franz_version,
)

OLD_KAFKA_PYTHON = _old_client("kafka-python==2.0.2", "kafka_python.py", "py2")
OLD_AIOKAFKA = _old_client("aiokafka==0.12.0", "aiokafka_client.py", "aio")
