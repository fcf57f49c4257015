"""Reads the facts about a deployment in the storage root: its file, its checkpoints and its tables."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from jobs.audit import query
from jobs.audit.tables.opening import TableStore
from jobs.audit.tables.specs import TABLES, VERSION_PROPERTY, TableSpec
from jobs.audit.upkeep.maintain import last_daily
from jobs.storage.checkpoint import ENFORCE, Checkpoint
from jobs.storage.deployment import Deployment
from jobs.storage.lease import is_held
from jobs.storage.stored_files import QUICK, ReadableFiles, stored_files
from quota.errors import MutationQuotaError
from quota.kafka.reading import Partition
from quota.settings import Settings
from schemas.buckets import STATE_VERSION
from schemas.documents.status import BatchStatus, TableStatus

CHECKPOINT_VERSIONS = {ENFORCE: STATE_VERSION, query.NAME: query.VERSION}
"""The version of each query's checkpoint, by the name of the query."""


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """A query's checkpoint and its position."""

    folder: str
    version: int
    exists: bool
    is_running: bool | None = None
    """Whether a process of this machine runs the query; None if its lease does not tell."""
    damage: str | None = None
    """The file that Spark needs to resume and that is missing; None if the checkpoint is complete."""
    last_batch: BatchStatus | None = None
    open_batch: BatchStatus | None = None
    positions: Mapping[Partition, int] | None = None
    """The offsets at which the next batch starts."""


@dataclass(frozen=True, slots=True)
class StorageFacts:
    """The content of a storage root."""

    deployment: Deployment
    checkpoints: Mapping[str, CheckpointFacts]
    tables: Mapping[str, TableStatus]


def read_storage(settings: Settings) -> StorageFacts:
    """Read the storage root of a deployment."""
    files = stored_files(settings, QUICK)
    deployment = Deployment.read(files)
    checkpoints = {name: read_checkpoint(files, name, version) for name, version in CHECKPOINT_VERSIONS.items()}
    tables = {table.name: _read_table(settings, table) for table in TABLES}
    return StorageFacts(deployment, checkpoints, tables)


def read_checkpoint(files: ReadableFiles, name: str, version: int) -> CheckpointFacts:
    """Read the checkpoint of a query."""
    checkpoint = Checkpoint.read(files, name, version)
    facts = CheckpointFacts(checkpoint.folder, version, checkpoint.exists, is_held(files, name))
    if not checkpoint.exists:
        return facts
    last = checkpoint.last_finished
    opened = checkpoint.offsets[-1] if checkpoint.offsets and checkpoint.offsets[-1] != last else None
    return replace(
        facts,
        damage=checkpoint.missing(stateful=name == ENFORCE),
        last_batch=None if last is None else BatchStatus(last, checkpoint.started_at(files, last)),
        open_batch=None if opened is None else BatchStatus(opened, checkpoint.started_at(files, opened)),
        positions={(position.topic, position.partition): position.offset for position in checkpoint.positions(files)},
    )


def _read_table(settings: Settings, table: TableSpec) -> TableStatus:
    """Read the log of a table; rows are counted from the statistics of its files."""
    path = settings.storage.table(table.name)
    status = TableStatus(table.name)
    try:
        with TableStore.of(settings).errors(table):
            try:
                opened = DeltaTable(path, storage_options={**settings.storage.deltalake(), **QUICK})
            except TableNotFoundError:
                return TableStatus(table.name, exists=False)
            files = pa.table(opened.get_add_actions(flatten=True))
            (last,) = opened.history(1)
            properties = opened.metadata().configuration
            maintained = last_daily(opened)
        counts = files.column("num_records") if "num_records" in files.column_names else pa.nulls(files.num_rows)
        status = TableStatus(
            table.name,
            exists=True,
            version=opened.version(),
            schema_version=int(properties[VERSION_PROPERTY]) if VERSION_PROPERTY in properties else None,
            rows=None if counts.null_count else sum(counts.to_pylist()),
            files=files.num_rows,
            size_bytes=sum(files.column("size_bytes").to_pylist()),
            committed_at=last.get("timestamp"),
            maintained_at=round(maintained.timestamp() * 1000),
        )
        table.read_version(path, properties)
    except MutationQuotaError as error:
        return TableStatus(table.name, exists=status.exists, error=str(error))
    return status
