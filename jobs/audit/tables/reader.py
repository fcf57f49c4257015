"""The audit's tables read without Spark: in a second instead of ten, and while jobs run."""

from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import FileSystem, SubTreeFileSystem

from jobs.audit.tables.opening import open_known, table_errors
from jobs.audit.tables.specs import TableSpec
from quota.errors import MutationQuotaError
from quota.records.record import Source
from quota.settings import Settings

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def open_table(settings: Settings, table: TableSpec) -> ds.Dataset:
    """Open the present version of a table; its rows are read later, within `read_errors`.

    Raises:
        MutationQuotaError: it does not exist, is another program's, or cannot be read.
    """
    path = settings.storage.table(table.name)
    stored, version = open_known(settings, table)
    if version < table.version:
        raise MutationQuotaError(
            f"the table {path} is of version {version}, and this program reads version {table.version}; "
            "upgrade it with mutation-quota audit --once"
        )
    with table_errors(path):
        return stored.to_pyarrow_dataset(filesystem=_local_file_system(path))


def _local_file_system(path: str) -> SubTreeFileSystem | None:
    """Return Arrow's own file system if the table is on a disk of this machine.

    Otherwise deltalake's is used, which calls Python from Arrow's threads: a thread that releases its file while the
    program exits aborts it, a few times in a hundred.
    """
    if "://" in path and not path.startswith("file://"):
        return None
    local, folder = FileSystem.from_uri(path)
    return SubTreeFileSystem(folder, local)


def read_errors(path: str) -> AbstractContextManager[None]:
    """Turn the errors of reading tables into one line (`jobs.audit.tables.opening.table_errors`)."""
    return table_errors(path, (duckdb.InvalidInputException, duckdb.IOException))


def at_source(source: Source) -> ds.Expression:
    """Return the condition for the rows of one record."""
    return (
        (ds.field("source", "offset") == source.offset)
        & (ds.field("source", "partition") == source.partition)
        & (ds.field("source", "topic") == source.topic)
    )


def to_datetime(epoch_ms: int) -> datetime:
    """Return a time in epoch ms, exactly."""
    return _EPOCH + epoch_ms * _MS


def to_timestamp(epoch_ms: int) -> pa.Scalar:
    """Return a time in epoch ms as the tables store it."""
    return pa.scalar(to_datetime(epoch_ms), pa.timestamp("us", "UTC"))


def to_epoch_ms(time: datetime | None) -> int | None:
    """Return a time of a table in epoch ms."""
    return None if time is None else (time - _EPOCH) // _MS
