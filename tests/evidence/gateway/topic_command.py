"""kafka-topics.sh, with a process for each command: its output and its exit code."""

import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.evidence.gateway.ground import Ground, create_topics
from tests.evidence.gateway.observation import Observation
from tests.evidence.gateway.program import Program
from tests.evidence.gateway.sides import Side, password_of
from tests.support.programs import JVM_OPTIONS

_TOPICS = {"sh-grown-a": 1, "sh-grown-b": 1, "sh-deleted-a": 33, "sh-deleted-b": 1}
_SECONDS = 120

_LOG4J = """\
appender.console.type=Console
appender.console.name=console
appender.console.target=SYSTEM_ERR
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%p %m%n%throwable{short.message}%n
rootLogger.level=WARN
rootLogger.appenderRef.console.ref=console
"""

# Each line is a command; {} is the prefix of the side. A bucket holds 3, so 33 partitions overdraw it by 30 s.
_CASES = (
    (
        "create",
        "--create --topic {}sh-a --partitions 33",
        "--create --topic {}sh-b --partitions 1",
        "--create --topic {}sh-a --partitions 1 --if-not-exists",
        "--create --topic {}sh-a --partitions 1",
    ),
    (
        "alter",
        "--alter --topic {}sh-grown-a --partitions 34",
        "--alter --topic {}sh-grown-b --partitions 2",
        "--alter --topic {}sh-grown-a --partitions 2",
        "--alter --topic {}sh-none --partitions 2 --if-exists",
    ),
    (
        "delete",
        "--delete --topic {}sh-deleted-a",
        "--delete --topic {}sh-deleted-b",
        "--delete --topic {}sh-none",
        "--delete --topic {}sh-none --if-exists",
    ),
    (
        "within the quota",
        "--create --topic {}sh-c --partitions 2 --config retention.ms=1000",
        "--describe --topic {}sh-c",
        "--list --topic {}sh-c",
        "--create --topic {}sh-d --replication-factor 9",
        "--create --topic {}sh-e --replica-assignment 1",
        "--describe --topic {}sh-none",
    ),
)


def _prepare(on: Ground) -> None:
    create_topics(on, {side.topic(name): count for side in on.sides for name, count in _TOPICS.items()})
    _log4j(on).write_text(_LOG4J)


def _log4j(on: Ground) -> Path:
    return on.folder / "command-log4j2.properties"


def _play(on: Ground, side: Side, first: int) -> list[Observation]:
    def play(number: int) -> list[Observation]:
        case, *commands = _CASES[number]
        properties = _properties(on, side, first + number)
        return [_run(on, side, properties, case, command) for command in commands]

    with ThreadPoolExecutor(2) as pool:
        return [each for found in pool.map(play, range(len(_CASES))) for each in found]


def _properties(on: Ground, side: Side, number: int) -> Path:
    """Write the file for --command-config, and return its path."""
    user = side.user(number)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    path = on.folder / f"{user}.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="{user}" password="{password_of(user)}";\n'
    )
    return path


def _run(on: Ground, side: Side, properties: Path, case: str, command: str) -> Observation:
    java = ["java", *JVM_OPTIONS.split(), "-Xmx128m", f"-Dlog4j2.configurationFile={_log4j(on)}"]
    java += ["-cp", f"{on.jars}/*", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", side.address]
    java += ["--command-config", str(properties), *command.format(side.topic("")).split()]
    sent = time.monotonic() * 1000
    done = subprocess.run(java, capture_output=True, text=True, check=False, timeout=_SECONDS)
    received = time.monotonic() * 1000
    output, errors = (_masked(side.plain(text)) for text in (done.stdout, done.stderr))
    first_line = next(iter((output or errors).splitlines()), "nothing")
    return Observation(
        case,
        command.format(""),
        f"exit {done.returncode}: {first_line}",
        sent,
        received,
        detail=f"{output}\n{errors}",
    )


def _masked(text: str) -> str:
    """Return a text without ids and times."""
    return re.sub(r"[0-9]{8,}", "N", re.sub(r"TopicId: \S+", "TopicId: ID", text)).strip()


TOPIC_COMMAND = Program(
    name="kafka-topics.sh",
    about="each command is a process of `org.apache.kafka.tools.TopicCommand`; its standard output, standard error and "
    "exit code are compared",
    users=len(_CASES),
    early_ms=120_000,  # a refused --alter waits for the mute or not: it makes two calls at once
    late_ms=15_000,  # includes the start of a JVM for each command
    play=_play,
    prepare=_prepare,
)
