"""Stores buckets in a file: a header, then a line for each bucket, in JSON.

Numbers are restored exactly, to the last bit; bytes are base64.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from jobs.storage.whole_file import read_whole
from quota.errors import BadInput, MutationQuotaError
from schemas.buckets import STATE_VERSION


class SavedBucket(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of the state store: its key and the fields of `schemas.buckets.STATE`."""

    bucket: str
    K: float
    T: int
    rate: float
    burst: float | None = None
    max_debt_ms: int | None = None
    reset_at: int | None = None
    more: bytes | None = None


class BucketFileHeader(msgspec.Struct, frozen=True):
    """The first line of a file: the state that the buckets belong to."""

    state_version: int
    """`schemas.buckets.STATE_VERSION` of the program that wrote them."""
    buckets: int
    """The number of buckets."""
    topics: dict[str, str]
    """The topics of requests: name to the id that the cluster assigned."""
    positions: dict[str, dict[str, int]]
    """By topic and partition, the offset of the first request that the buckets do not include."""


@dataclass(frozen=True, slots=True)
class SavedBuckets:
    """The content of a file."""

    header: BucketFileHeader
    buckets: Sequence[SavedBucket]

    def write(self, out: BinaryIO) -> None:
        """Write the lines to a file that `read_buckets` reads."""
        out.writelines(msgspec.json.encode(line) + b"\n" for line in (self.header, *self.buckets))


def read_buckets(file: Path) -> SavedBuckets:
    """Read a file that `buckets export` wrote."""
    content = read_whole(file)
    try:
        first, *lines = content.splitlines()
        header = msgspec.json.decode(first, type=BucketFileHeader)
        if header.state_version != STATE_VERSION:
            raise BadInput(
                f"{file} has buckets of version {header.state_version}, and this program uses version "
                f"{STATE_VERSION}; export and load with the same program"
            )
        decoder = msgspec.json.Decoder(SavedBucket)
        buckets = [decoder.decode(line) for line in lines]
    except (ValueError, msgspec.MsgspecError) as error:
        raise BadInput(f"{file} was not written by buckets export, or was changed: {error}") from None
    if len(buckets) != header.buckets:
        raise BadInput(f"{file} is truncated: it has {len(buckets)} of {header.buckets} buckets; export again")
    return SavedBuckets(header, buckets)


def no_buckets_error(folder: str) -> MutationQuotaError:
    """Return the error for a checkpoint without buckets."""
    return MutationQuotaError(
        f"there are no buckets in {folder}: enforce has not finished a batch yet; otherwise correct storage.root"
    )
