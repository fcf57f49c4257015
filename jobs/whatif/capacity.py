"""Measured cluster throughput, as `make experiment` writes it, by which quotas are sized."""

from pathlib import Path

import msgspec

from quota.errors import BadInput
from quota.records.fields import Positive


class Throughput(msgspec.Struct, frozen=True):
    """Mutations/s of a storm without a quota, from its first request until the cluster had caught up."""

    created_per_second: Positive
    deleted_per_second: Positive

    @property
    def capacity(self) -> float:
        """What the controller takes whichever it is."""
        return min(self.created_per_second, self.deleted_per_second)


def read_capacity_file(file: Path) -> Throughput:
    """What the experiment's cluster carried out.

    Raises:
        BadInput: it is not that.
    """
    try:
        return msgspec.json.decode(file.read_bytes(), type=Throughput)
    except OSError as error:
        raise BadInput(f"--experiment {file}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"--experiment {file}: not the experiment.json of make experiment: {error}") from None
