"""Checks before a query resumes from its checkpoint, and what it may start from instead.

Without its checkpoint, a Spark query silently starts from scratch; with an incomplete checkpoint, it fails with an
error without advice; and records that its topics have lost would be skipped or mistaken for others. The checks prevent
all of that.
"""

import logging
import re
import time
from collections.abc import Sequence

from confluent_kafka import TopicPartition

from jobs.storage.checkpoint import Checkpoint, current_folder, new_folder, switch_folder
from jobs.storage.deployment import Deployment, forget_checkpoint, record_checkpoint
from jobs.storage.stored_files import Files
from quota.errors import ClusterError, MutationQuotaError
from quota.kafka.timing import Deadline
from quota.kafka.topics.topic_admin import EARLIEST, TopicAdmin
from quota.settings import Settings
from quota.text import plural

_log = logging.getLogger(__name__)

_VERSION = re.compile(r"v(\d+)")

_POLL_SECONDS = 0.2


def check_stateless_checkpoint(files: Files, query: str, version: int, missing_tables: Sequence[str]) -> Checkpoint:
    """Return the checkpoint of a query without state, which is complete or does not exist.

    Such a query may start from scratch, because its tables detect copies.
    """
    checkpoint = Checkpoint.read(files, query, version)
    if not checkpoint.exists:
        return checkpoint
    missing = checkpoint.missing(stateful=False)
    if missing is None and missing_tables and checkpoint.commits:
        missing = f"it is ahead of the tables, because {', '.join(missing_tables)} is missing"
    if missing is not None:
        raise MutationQuotaError(
            f"the checkpoint {files.root}/{checkpoint.folder} is incomplete: {missing}; remove that folder: {query} "
            "then reads all records again, and adds those that the tables do not have"
        )
    return checkpoint


def check_stateful_checkpoint(files: Files, query: str, version: int, deployment: Deployment) -> Checkpoint:
    """Return the checkpoint of a query with state, which is complete; or has never existed, to start from scratch."""
    checkpoint = Checkpoint.read(files, query, version)
    known = deployment.checkpoints.get(query)
    folder = f"{files.root}/{checkpoint.folder}"
    how_to_reset = (
        f"to discard the state, start once with `{query} --reset-state`: all buckets are then full, "
        "and requests that are still in their topic are decided again"
    )
    if known is not None and known > version:
        raise MutationQuotaError(
            f"the buckets of {files.root} were last written by a newer program, as version {known} (this one writes "
            f"version {version}); start that program again; {how_to_reset}"
        )
    if not checkpoint.exists:
        if known == version:
            raise MutationQuotaError(
                f"the checkpoint {folder} is missing, and with it all buckets and positions; restore it from a "
                f"backup; {how_to_reset}"
            )
        others = [*_versions(files, query), *([] if known is None else [known])]
        if others:
            raise MutationQuotaError(
                f"the buckets of {files.root} have version {max(others)}, and this program needs version {version}, "
                f"which is missing; continue with the program that wrote them; {how_to_reset}"
            )
        return checkpoint
    missing = checkpoint.missing(stateful=True)
    if missing is not None:
        raise MutationQuotaError(
            f"the checkpoint {folder} is incomplete: {missing}; restore it from a backup{_how_to_repair(checkpoint)}; "
            f"{how_to_reset}"
        )
    return checkpoint


def resume_checkpoint(files: Files, query: str, version: int, deployment: Deployment) -> Checkpoint:
    """Return the checkpoint that a query with state starts from, after the same checks, and record that it exists.

    It is not recorded yet after a kill between its first batch and the next poll of the monitors.
    """
    checkpoint = check_stateful_checkpoint(files, query, version, deployment)
    if checkpoint.commits and deployment.checkpoints.get(query) != version:
        record_checkpoint(files, query, version)
    return checkpoint


def reset_checkpoint(files: Files, query: str) -> None:
    """Make a query start from scratch; its existing checkpoints are not removed."""
    forget_checkpoint(files, query)  # first: after a kill here, the query continues with its old checkpoint
    _switch(files, query, new_folder(files, query))


def replace_checkpoint(files: Files, query: str, version: int, prepared: str) -> None:
    """Make a query start from a prepared checkpoint, in a `new_folder`, below it in a folder for its version.

    Its existing checkpoints are not removed.
    """
    record_checkpoint(files, query, version)  # first: after a kill here, the query must not start with full buckets
    _switch(files, query, prepared)


def _switch(files: Files, query: str, name: str) -> None:
    old = current_folder(files, query)
    switch_folder(files, query, name)
    if files.names(old):
        _log.warning("%s starts with a new checkpoint; the old one is in %s/%s", query, files.root, old)


def _how_to_repair(checkpoint: Checkpoint) -> str:
    """Return how to resume after the last complete batch, whose state may still exist."""
    if not (checkpoint.has_state and checkpoint.query_id):
        return ""
    complete = [batch for batch in checkpoint.offsets if f"offsets/{batch}" not in checkpoint.truncated]
    while complete and complete[-1] > 0 and complete[-1] - 1 not in complete:
        complete.pop()
    if not complete:
        return ""
    return (
        f", or remove the files in offsets and commits that are newer than {complete[-1]} or truncated: "
        "later requests are decided again, with the same answers"
    )


def _versions(files: Files, query: str) -> list[int]:
    """Return the versions whose checkpoints have files of a batch."""
    versions = [
        int(match[1]) for name in files.names(current_folder(files, query)) if (match := _VERSION.fullmatch(name))
    ]
    return [version for version in versions if Checkpoint.read(files, query, version).exists]


def check_gaps(settings: Settings, topics: TopicAdmin, query: str, positions: list[TopicPartition]) -> None:
    """Check that the topics still have what a query, which the messages name, has not read, and end after what it has.

    A partition that begins after the query's position is an error only if `spark.fail_on_data_loss` is set.
    """
    ranges = _ranges(topics, positions, settings.kafka.timeout_seconds)
    for position, (_, end) in ranges:
        if end < position.offset:
            name = f"{position.topic}-{position.partition}"
            raise MutationQuotaError(
                f"{name} ends at offset {end}, but {query} has read it up to {position.offset}: a broker has lost "
                "records, or the topic was restored from a backup; its next records would get the ids of earlier "
                "ones, so start on another storage.root with new topics, as docs/how-to/operations/state.md describes"
            )
    gaps = [(position, first) for position, (first, _) in ranges if first > position.offset]
    if not gaps:
        return
    count = sum(first - position.offset for position, first in gaps)
    removed = ", ".join(
        f"{position.topic}-{position.partition} from offset {position.offset} to {first - 1}"
        for position, first in gaps
    )
    were, them = ("was", "it") if count == 1 else ("were", "them")
    lost = f"{plural(count, 'record')} {were} removed before {query} read {them}: {removed}"
    if settings.spark.fail_on_data_loss:
        raise MutationQuotaError(
            f"{lost}; to continue after {them}, start once with --set spark.fail_on_data_loss=false; "
            "to prevent this, raise retention.ms of the topic"
        )
    _log.warning("%s; continuing after %s", lost, them)


def _ranges(
    topics: TopicAdmin, positions: list[TopicPartition], seconds: float
) -> list[tuple[TopicPartition, tuple[int, int]]]:
    """Return the positions, each with the first offset and the end of its partition."""
    partitions = {(position.topic, position.partition): position for position in positions}
    deadline = Deadline(seconds)
    while True:
        try:
            firsts, ends = topics.offsets(partitions, EARLIEST), topics.offsets(partitions)
        except ClusterError:  # such as that of a leader that moves
            if deadline.has_passed:
                raise
        else:  # the high watermark of a new leader may lag for a moment
            if deadline.has_passed or all(ends[key] >= position.offset for key, position in partitions.items()):
                return [(position, (firsts[key], ends[key])) for key, position in partitions.items()]
        time.sleep(_POLL_SECONDS)
