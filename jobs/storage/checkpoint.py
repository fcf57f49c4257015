"""Checkpoints looked at before a query goes on with them.

Without its checkpoint a query of Spark begins anew and says nothing; with a part of one it fails in words that tell
nobody what to do.
"""

import json
import logging
import re
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from confluent_kafka import TopicPartition
from pyspark.sql.streaming.query import StreamingQuery

from jobs.spark.queries import query_errors
from jobs.storage.deployment import Deployment, forget_checkpoint, note_checkpoint
from jobs.storage.files import Files
from quota.errors import MutationQuotaError
from quota.settings.storage import checkpoint_folder

_log = logging.getLogger(__name__)

_VERSION = re.compile(r"v(\d+)")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What stands in the folder of a query's checkpoint."""

    folder: str
    query_id: str | None
    """Of its file `metadata`; None where that is missing or damaged."""
    offsets: list[int]
    """The batches that were begun, oldest first; Spark keeps the last hundred."""
    commits: list[int]
    """The batches that were finished."""
    torn: list[str]
    """Of the newest two batches begun and the newest finished: files without their end, as after a power cut."""
    has_state: bool

    @classmethod
    def read(cls, files: Files, query: str, version: int) -> Self:
        """Look at a checkpoint of that version; all of it may be missing."""
        folder = checkpoint_folder(query, version)
        offsets, commits = (_batches(files, f"{folder}/{log}") for log in ("offsets", "commits"))
        newest = [f"offsets/{batch}" for batch in offsets[-2:]] + [f"commits/{batch}" for batch in commits[-1:]]
        torn = [name for name in newest if _json_at_end(files.read(f"{folder}/{name}")) is None]
        has_state = bool(files.names(f"{folder}/state"))
        return cls(folder, _query_id(files.read(f"{folder}/metadata")), offsets, commits, torn, has_state)

    @property
    def is_begun(self) -> bool:
        """Whether anything is left of batches."""
        return bool(self.offsets or self.commits or self.has_state)

    @property
    def is_open(self) -> bool:
        """Whether the newest batch is begun and not finished."""
        return self.offsets[-1:] != self.commits[-1:]

    def missing(self, *, stateful: bool) -> str | None:
        """What Spark would not go on without; None where all is there, as far as files can tell."""
        if self.torn:
            return f"{self.torn[0]} has no end"
        if not self.offsets:
            return "its offsets are missing"
        if self.query_id is None:
            return "its file metadata is missing or damaged"
        newest = max([*self.offsets, *self.commits])
        for batch in range(newest, max(newest - 2, -1), -1):
            if batch not in self.offsets:
                return f"offsets/{batch} is missing"
        if stateful and self.commits and not self.has_state:
            return "its state is missing"
        return None

    def positions(self, files: Files) -> list[TopicPartition]:
        """Where the next batch begins, as far as the query has come at all."""
        done = [batch for batch in self.offsets if batch in self.commits or batch != self.offsets[-1]]
        if not done:
            return []
        offsets = _json_at_end(files.read(f"{self.folder}/offsets/{done[-1]}")) or {}
        return [
            TopicPartition(topic, int(partition), offset)
            for topic, partitions in offsets.items()
            for partition, offset in partitions.items()
        ]

    def forget_topics(self, files: Files, gone: Container[str]) -> None:
        """Have the next batch know nothing of topics that are gone for good.

        Spark would try to read of them what a batch that was begun had planned, and fail again after each start.
        """
        # Where the next batch begins and, if it was begun, where it ends; and where the very first one begins.
        for name in [*(f"offsets/{batch}" for batch in self.offsets[-2:]), "sources/0/0"]:
            file = f"{self.folder}/{name}"
            offsets = _json_at_end(files.read(file)) or {}
            others = {topic: partitions for topic, partitions in offsets.items() if topic not in gone}
            if others != offsets:
                write_offsets(files, file, others)


def write_offsets(files: Files, file: str, offsets: Mapping[str, Mapping[str, int]]) -> None:
    """Put other offsets, by topic and partition, into a file of a checkpoint; what stands before them stays."""
    text = files.read(file) or ""
    files.write(file, "\n".join([*text.splitlines()[:-1], json.dumps(offsets)]))


def check_stateless_checkpoint(
    files: Files, query: str, version: int, kept: dict[str, int], missing_tables: Sequence[str]
) -> Checkpoint:
    """Let a query go on that has no state and knows its records again: only not with half a checkpoint.

    Args:
        files: of the storage root.
        query: the query's name.
        version: of the checkpoint that it goes on with.
        kept: by the id of a query, the newest batch of it that the tables hold.
        missing_tables: those that are not there.

    Raises:
        MutationQuotaError: says what is missing and what to do.
    """
    found = Checkpoint.read(files, query, version)
    newest = kept.get(found.query_id or "", -1)
    if not found.is_begun and newest < 0:
        return found
    missing = found.missing(stateful=False)
    if missing is None and newest > found.offsets[-1]:
        # Delta would take the next batches for those that it has, and leave them out.
        missing = f"it ends with batch {found.offsets[-1]}, and the tables hold {newest}"
    if missing is None and missing_tables and found.commits:
        missing = f"it is ahead of the tables, of which {', '.join(missing_tables)} is not there"
    if missing is not None:
        raise MutationQuotaError(
            f"the checkpoint {files.root}/{found.folder} is no whole one: {missing}; remove that folder: "
            f"{query} reads again all that there is, and adds what the tables do not hold"
        )
    return found


def check_checkpoint(files: Files, query: str, version: int) -> Checkpoint:
    """Let a query with state go on with its checkpoint, or begin where there has never been one.

    Raises:
        MutationQuotaError: says what is missing, or which version is there instead, and what to do.
    """
    found = Checkpoint.read(files, query, version)
    known = Deployment.read(files).checkpoints.get(query)
    folder = f"{files.root}/{found.folder}"
    anew = (
        f"to begin anew knowingly, start once with `{query} --begin-anew`: all buckets are full then, "
        "and requests that their topic still holds are decided again"
    )
    if known is not None and known > version:
        raise MutationQuotaError(
            f"the buckets of {files.root} were last kept by a newer program, as version {known} "
            f"(this one keeps version {version}); start that one again; {anew}"
        )
    if not found.is_begun:
        if known == version:
            raise MutationQuotaError(
                f"the checkpoint {folder} is gone, and with it all buckets and what was decided so far; "
                f"restore it from a backup; {anew}"
            )
        others = [*_versions(files, query), *([] if known is None else [known])]
        if others:
            raise MutationQuotaError(
                f"the buckets of {files.root} are kept as version {max(others)}, and this program goes on "
                f"with version {version} only, which is not there; go on with the program that wrote them; {anew}"
            )
        return found
    missing = found.missing(stateful=True)
    if missing is not None:
        raise MutationQuotaError(
            f"the checkpoint {folder} is no whole one: {missing}; restore it from a backup{_shorter(found)}; {anew}"
        )
    if found.commits:
        note_checkpoint(files, query, version)
    return found


def begin_anew(files: Files, query: str) -> None:
    """Set a query's checkpoints aside, whatever is left of them."""
    _set_aside(files, query)
    forget_checkpoint(files, query)


def begin_with(files: Files, query: str, version: int, prepared: str) -> None:
    """Put what is prepared in the place of a query's checkpoints.

    Args:
        files: of the storage root.
        query: the query's name.
        version: of the checkpoint that is prepared.
        prepared: the folder with its version as a folder in it.
    """
    note_checkpoint(files, query, version)  # first: who is killed in between must not begin with full buckets
    _set_aside(files, query)
    files.rename(prepared, f"checkpoints/{query}")


def _set_aside(files: Files, query: str) -> None:
    folder = f"checkpoints/{query}"
    if files.names(folder):
        aside = f"{folder}-set-aside-{time.time_ns() // 1_000_000}"
        files.rename(folder, aside)
        _log.warning("%s begins anew; what it had is in %s/%s", query, files.root, aside)


class FirstBatch:
    """Has the deployment remember that a query has a checkpoint, once a batch of it is finished."""

    def __init__(self, files: Files, query: StreamingQuery, version: int) -> None:
        """Prepare; call `look` now and then while the query runs, and when it has ended."""
        self._files = files
        self._query = query
        self._version = version
        self._noted = False

    def look(self) -> None:
        """Look whether a batch is finished by now."""
        progress = None if self._noted else self._query.lastProgress
        if progress and (progress["batchId"] or progress["numInputRows"]):
            with query_errors(self._query.name):
                note_checkpoint(self._files, self._query.name, self._version)
            self._noted = True


def _shorter(found: Checkpoint) -> str:
    """How to go on from the last batch that is whole, where the state may still be."""
    if not (found.has_state and found.query_id):
        return ""
    whole = [batch for batch in found.offsets if f"offsets/{batch}" not in found.torn]
    while whole and whole[-1] > 0 and whole[-1] - 1 not in whole:
        whole.pop()
    if not whole:
        return ""
    return (
        f", or remove of offsets and commits what is newer than {whole[-1]}, and files without an end: "
        "what came after is decided again, with the same answers"
    )


def _batches(files: Files, folder: str) -> list[int]:
    return sorted(int(name) for name in files.names(folder) if name.isdecimal())


def _versions(files: Files, query: str) -> list[int]:
    """Versions of which there are checkpoints with batches."""
    found = [int(match[1]) for name in files.names(f"checkpoints/{query}") if (match := _VERSION.fullmatch(name))]
    return [version for version in found if Checkpoint.read(files, query, version).is_begun]


def _query_id(metadata: str | None) -> str | None:
    found = _json_at_end(metadata)
    return found["id"] if found and "id" in found else None


def _json_at_end(text: str | None) -> dict[str, Any] | None:
    """The object that the last line holds; None where there is none."""
    try:
        found = json.loads((text or "").splitlines()[-1])
    except (ValueError, IndexError):
        return None
    return found if isinstance(found, dict) else None
