"""Buckets in a file, to begin a checkpoint with: a line on what they are, then a line for each, in JSON.

Numbers come back as they were, to the last bit; bytes are base64.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from quota.errors import BadInput
from schemas.buckets import STATE_VERSION


class SavedBucket(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of the state store: its key, and `schemas.buckets.STATE`."""

    bucket: str
    K: float
    T: int
    rate: float
    burst: float | None = None
    max_debt_ms: int | None = None
    reset_at: int | None = None
    more: bytes | None = None


class SavedAt(msgspec.Struct, frozen=True):
    """What the buckets are the state of."""

    state_version: int
    """`schemas.buckets.STATE_VERSION` of the program that wrote them."""
    buckets: int
    """How many there are."""
    topics: dict[str, str]
    """The topics with requests, with the id that the cluster gave each."""
    positions: dict[str, dict[str, int]]
    """By topic and partition, the first request that they do not know."""


@dataclass(frozen=True, slots=True)
class SavedBuckets:
    """What stands in a file."""

    at: SavedAt
    buckets: Sequence[SavedBucket]

    def write(self, file: Path) -> None:
        """Write the file, which must not be there.

        Raises:
            BadInput: it is.
        """
        try:
            with file.open("xb") as output:
                for line in (self.at, *self.buckets):
                    output.write(msgspec.json.encode(line) + b"\n")
        except FileExistsError:
            raise BadInput(f"{file} is there already; name another file") from None


def read_buckets(file: Path) -> SavedBuckets:
    """Read a file, all of it.

    Raises:
        BadInput: it is not there, of another version, cut short, or not of `buckets export`.
    """
    try:
        first, *lines = file.read_bytes().splitlines()
        at = msgspec.json.decode(first, type=SavedAt)
        if at.state_version != STATE_VERSION:
            raise BadInput(
                f"{file} holds buckets of version {at.state_version}, and this program keeps version {STATE_VERSION}; "
                "export and begin anew with one program"
            )
        decoder = msgspec.json.Decoder(SavedBucket)
        buckets = [decoder.decode(line) for line in lines]
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None
    except (ValueError, msgspec.MsgspecError) as error:
        raise BadInput(f"{file} was not written by buckets export, or was changed since: {error}") from None
    if len(buckets) != at.buckets:
        raise BadInput(f"{file} is cut short: it holds {len(buckets)} buckets of {at.buckets}; export again")
    return SavedBuckets(at, buckets)
