"""The capacity of a controller, measured by `make experiment`."""

from pathlib import Path

import msgspec

from quota.errors import BadInput
from quota.records.fields import Positive


class Throughput(msgspec.Struct, frozen=True):
    """The throughput of a cluster under overload without a quota, from the first request until it caught up.

    Rates are in mutations/s.
    """

    created_per_second: Positive
    deleted_per_second: Positive

    @property
    def capacity(self) -> float:
        """The rate that the controller sustains for creations and for deletions: the lower of the two."""
        return min(self.created_per_second, self.deleted_per_second)


def read_capacity_file(file: Path) -> Throughput:
    """Read the throughput from the experiment's file.

    Raises:
        BadInput: the file cannot be read, or is not from the experiment.
    """
    try:
        return msgspec.json.decode(file.read_bytes(), type=Throughput)
    except OSError as error:
        raise BadInput(f"--experiment {file}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"--experiment {file}: not the experiment.json of make experiment: {error}") from None
