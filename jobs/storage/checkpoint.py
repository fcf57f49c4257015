"""The files of a query's checkpoint."""

import json
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Self

from confluent_kafka import TopicPartition

from jobs.storage.stored_files import Files, ReadableFiles, numbered
from quota.errors import MutationQuotaError
from quota.kafka.timing import now_ms
from quota.settings.storage import query_folder

_CHECKPOINTS = query_folder("")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of a query's checkpoint folder."""

    folder: str
    """The folder, relative to the storage root."""
    query_id: str | None
    """The id in the file `metadata`; None if that is missing or damaged."""
    offsets: list[int]
    """The batches that were started, oldest first; Spark retains the last hundred."""
    commits: list[int]
    """The batches that were finished, oldest first."""
    truncated: list[str]
    """Truncated files, as after a power cut, of the last two batches started and the last one finished."""
    has_state: bool
    """Whether the folder `state` contains anything."""

    @classmethod
    def read(cls, files: ReadableFiles, query: str, version: int) -> Self:
        """Read a checkpoint of a version; any part of it may be missing."""
        folder = f"{current_folder(files, query)}/v{version}"
        offsets, commits = (numbered(files, f"{folder}/{log}") for log in ("offsets", "commits"))
        newest = [f"offsets/{batch}" for batch in offsets[-2:]] + [f"commits/{batch}" for batch in commits[-1:]]
        truncated = [name for name in newest if _last_object(files.read(f"{folder}/{name}")) is None]
        has_state = bool(files.names(f"{folder}/state"))
        metadata = _last_object(files.read(f"{folder}/metadata")) or {}
        return cls(folder, metadata.get("id"), offsets, commits, truncated, has_state)

    @property
    def exists(self) -> bool:
        """Whether there are files of any batch."""
        return bool(self.offsets or self.commits or self.has_state)

    @property
    def has_open_batch(self) -> bool:
        """Whether the newest batch is started but not finished."""
        return self.offsets[-1:] != self.commits[-1:]

    def missing(self, *, stateful: bool) -> str | None:
        """Return what is missing for Spark to resume, or None if the files look complete."""
        if self.truncated:
            return f"{self.truncated[0]} is truncated"
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

    @property
    def last_finished(self) -> int | None:
        """The newest finished batch according to the files; None before the first one."""
        finished = [batch for batch in self.offsets if batch in self.commits or batch != self.offsets[-1]]
        return finished[-1] if finished else None

    def started_at(self, files: ReadableFiles, batch: int) -> int | None:
        """Return the start time of a batch, epoch ms; None if its file is missing or damaged."""
        lines = (files.read(f"{self.folder}/offsets/{batch}") or "").splitlines()
        metadata = _last_object(lines[1]) if len(lines) > 1 else None  # Spark stores it next to the offsets
        moment = (metadata or {}).get("batchTimestampMs")
        return moment if isinstance(moment, int) else None

    def next_offset(self, files: ReadableFiles) -> dict[str, Any]:
        """Return the source offset at which the next batch starts, in Spark's format; empty before the first batch."""
        batch = self.last_finished
        return {} if batch is None else _last_object(files.read(f"{self.folder}/offsets/{batch}")) or {}

    def positions(self, files: ReadableFiles) -> list[TopicPartition]:
        """Return the offsets at which the next batch starts; empty before the first batch is finished."""
        return [
            TopicPartition(topic, int(partition), offset)
            for topic, partitions in self.next_offset(files).items()
            for partition, offset in partitions.items()
        ]

    def forget_topics(self, files: Files, deleted: Container[str]) -> None:
        """Remove topics that were deleted permanently from the offsets of the next batch.

        Otherwise Spark would try to read the offsets that a started batch planned for them, and fail after each start.
        """
        # The start of the next batch, its end if it was started, and the start of the first batch.
        for name in [*(f"offsets/{batch}" for batch in self.offsets[-2:]), "sources/0/0"]:
            file = f"{self.folder}/{name}"
            offsets = _last_object(files.read(file)) or {}
            others = {topic: partitions for topic, partitions in offsets.items() if topic not in deleted}
            if others != offsets:
                write_offsets(files, file, others)


def current_folder(files: ReadableFiles, query: str) -> str:
    """Return the folder of a query's checkpoints, one for each version, relative to the storage root."""
    text = files.read(_pointer(query))
    if text is None:
        others = [name for name in files.names(_CHECKPOINTS) if re.fullmatch(rf"{re.escape(query)}-\d+", name)]
        if not others:
            return query_folder(query)
    try:
        return query_folder(str(json.loads(text or "")["folder"]))
    except (ValueError, KeyError, TypeError):
        state = "missing" if text is None else "damaged"
        raise MutationQuotaError(
            f"{files.root}/{_pointer(query)} is {state}; restore it from a backup, "
            f'or write {{"folder": "NAME"}} into it: NAME is the folder in {_CHECKPOINTS} with the newest batches'
        ) from None


def new_folder(files: Files, query: str) -> str:
    """Return an unused name in `checkpoints/` for `switch_folder`."""
    if files.read(_pointer(query)) is None:  # otherwise an interrupted switch would look like a missing pointer
        switch_folder(files, query, query)
    return f"{query}-{now_ms()}"


def switch_folder(files: Files, query: str, name: str) -> None:
    """Make a query use a different folder in `checkpoints/`, with one atomic write."""
    files.write(_pointer(query), json.dumps({"folder": name}))


def write_offsets(files: Files, file: str, offsets: Mapping[str, Mapping[str, int]]) -> None:
    """Replace the offsets by topic and partition in a checkpoint file; the lines before them stay."""
    text = files.read(file) or ""
    files.write(file, "\n".join([*text.splitlines()[:-1], json.dumps(offsets)]))


def _pointer(query: str) -> str:
    return f"{query_folder(query)}.json"


def _last_object(text: str | None) -> dict[str, Any] | None:
    """Return the JSON object in the last line; None if the line is not a complete object."""
    try:
        value = json.loads((text or "").splitlines()[-1])
    except (ValueError, IndexError):
        return None
    return value if isinstance(value, dict) else None
