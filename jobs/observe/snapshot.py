"""Snapshots of the topics of a cluster."""

from pathlib import Path

import msgspec

from quota.errors import BadInput, BadRecord
from quota.kafka.timing import now_ms
from quota.kafka.topics.topic_admin import read_cluster
from quota.records import codec
from quota.records.fields import EpochMs
from quota.settings import Settings


class Snapshot(msgspec.Struct, frozen=True):
    """The partitions of each topic, by name."""

    at: EpochMs
    partitions: dict[str, int]


_decoder = msgspec.json.Decoder(Snapshot)


def take_snapshot(settings: Settings) -> Snapshot:
    """Return the topics of the target cluster."""
    cluster = read_cluster(settings.target_connection, settings.kafka.timeout_seconds)
    return Snapshot(now_ms(), {topic: len(leaders) for topic, leaders in cluster.topics.items()})


def read_snapshot(file: Path) -> Snapshot:
    """Read a snapshot."""
    try:
        return codec.decode(file.read_bytes(), _decoder)
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None
    except BadRecord as error:
        raise BadInput(f"{file}: not a file of mutation-quota observe snapshot: {error}") from None
