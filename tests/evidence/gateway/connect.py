"""A Connect worker, whose admin client creates the topics of a source connector."""

import subprocess
import time
from functools import cache
from pathlib import Path

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from quota.errors import MutationQuotaError
from tests.evidence.gateway.ground import Ground
from tests.evidence.gateway.java_programs import JavaPrograms
from tests.evidence.gateway.observation import Observation
from tests.evidence.gateway.program import Program
from tests.evidence.gateway.sides import Side, password_of

_SECONDS = 120
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"

_WORKER = """\
bootstrap.servers={broker}
{security}
{producer}
admin.bootstrap.servers={address}
{admin}
listeners=http://127.0.0.1:0
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.file.filename={folder}/offsets
plugin.discovery=service_load
topic.creation.enable=true
"""

# Each topic has 8 partitions: the first overdraws the bucket of 3 by 5 s, so the second has to wait for 5 s.
_CONNECTOR = """\
name=source
connector.class=ConnectSource
tasks.max=1
topics.of.source={topics}
topic.creation.default.partitions=8
topic.creation.default.replication.factor=1
"""


def _prepare(on: Ground) -> None:
    _compiled(on.folder / "connect", on.jars)


@cache
def _compiled(folder: Path, jars: Path) -> JavaPrograms:
    program = JavaPrograms(folder, ("ConnectSource",), jars)
    services = folder / "META-INF/services"
    services.mkdir(parents=True)
    (services / "org.apache.kafka.connect.source.SourceConnector").write_text("ConnectSource\n")
    return program


def _play(on: Ground, side: Side, first: int) -> list[Observation]:
    topics = [side.topic(f"connect-{each}") for each in "ab"]
    folder = on.folder / f"{side.name}-connect"
    folder.mkdir()
    user = side.user(first)
    security = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{_PLAIN} required username="{user}" password="{password_of(user)}";',
    }
    sections = {
        name: "\n".join(f"{prefix}{key}={value}" for key, value in security.items())
        for name, prefix in (("security", ""), ("producer", "producer."), ("admin", "admin."))
    }
    worker = _WORKER.format(broker=side.broker, address=side.address, folder=folder, **sections)
    (folder / "worker.properties").write_text(worker)
    (folder / "source.properties").write_text(_CONNECTOR.format(topics=",".join(topics)))
    files = [str(folder / f"{each}.properties") for each in ("worker", "source")]
    command = _compiled(on.folder / "connect", on.jars).command(
        "org.apache.kafka.connect.cli.ConnectStandalone", *files
    )
    with (folder / "connect.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        arrived = [_first_record(on, topic, process, folder / "connect.log") for topic in topics]
    finally:
        process.terminate()
        process.wait(_SECONDS)
    case = "a source connector with two topics of 8 partitions"
    return [
        Observation(case, "a record in the first, which overdraws by 5 s", "there", arrived[0], arrived[0]),
        Observation(case, "a record in the second", "there", arrived[0], arrived[1]),
    ]


def _first_record(on: Ground, topic: str, process: subprocess.Popen, log: Path) -> float:
    """Return the time at which a topic has its first record, ms."""
    deadline = time.monotonic() + _SECONDS
    while True:
        if _records(on, topic):
            return time.monotonic() * 1000
        if process.poll() is not None or time.monotonic() > deadline:
            raise MutationQuotaError(f"Connect writes no record to {topic}: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)


def _records(on: Ground, topic: str) -> int:
    """Return the number of a topic's records; 0 if it does not exist, or its partitions have no leaders yet."""
    found = on.admin.list_topics(timeout=_SECONDS).topics.get(topic)
    if found is None:
        return 0
    asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in found.partitions}
    try:
        return sum(future.result(_SECONDS).offset for future in on.admin.list_offsets(asked).values()) if asked else 0
    except KafkaException:
        return 0


CONNECT_WORKER = Program(
    name="Kafka Connect",
    about="a standalone worker, whose `bootstrap.servers` is the broker on both sides, and `admin.bootstrap.servers` "
    "the gateway on its side; it waits until its connector's topics are created",
    users=1,
    play=_play,
    prepare=_prepare,
)
