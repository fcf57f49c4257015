"""The topics of a cluster at one moment, in a file."""

from pathlib import Path

import msgspec

from quota.errors import BadInput, BadRecord
from quota.records import codec
from quota.records.fields import EpochMs
from quota.records.quota_log import Cluster


class Snapshot(msgspec.Struct, frozen=True):
    """The partitions of each topic, by name."""

    at: EpochMs
    partitions: dict[str, int]

    @classmethod
    def of(cls, cluster: Cluster, at: int) -> "Snapshot":
        """Return the snapshot of a cluster at a moment [epoch ms]."""
        return cls(at, {topic: len(leaders) for topic, leaders in cluster.topics.items()})


_decoder = msgspec.json.Decoder(Snapshot)


def read_snapshot(file: Path) -> Snapshot:
    """Read a snapshot.

    Raises:
        BadInput: the file cannot be read, or is none.
    """
    try:
        return codec.decode(file.read_bytes(), _decoder)
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None
    except BadRecord as error:
        raise BadInput(f"{file}: no snapshot of mutation-quota observe snapshot: {error}") from None
