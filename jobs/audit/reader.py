"""The tables of the audit, read without Spark: in a second instead of ten, and beside jobs that run."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow.fs import FileSystem, SubTreeFileSystem

from jobs.audit.tables import TableSpec, no_table, version_of
from quota.errors import MutationQuotaError
from quota.records.record import Row, Source
from quota.settings.model import Settings
from quota.settings.storage import delta_options, table_path

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def open_table(settings: Settings, table: TableSpec) -> ds.Dataset:
    """A table as it is now; what it holds is read when it is asked, within `reading`.

    Raises:
        MutationQuotaError: it is not there, is another program's, or cannot be read.
    """
    path = table_path(settings, table.name)
    with reading(path):
        there = DeltaTable(path, storage_options=delta_options(settings))
        version = version_of(table, path, there.metadata().configuration)
        if version < table.version:
            raise MutationQuotaError(
                f"the table {path} is of version {version}, and this program reads version {table.version}; "
                "mutation-quota audit --once brings it up to that"
            )
        return there.to_pyarrow_dataset(filesystem=_local(path))


def _local(path: str) -> SubTreeFileSystem | None:
    """Arrow's own file system where the table is on a disk of this machine.

    Else deltalake's is taken, which calls Python from Arrow's threads: one that lets go of its file while the
    program ends aborts it, some times in a hundred.
    """
    if "://" in path and not path.startswith("file://"):
        return None
    local, folder = FileSystem.from_uri(path)
    return SubTreeFileSystem(folder, local)


@contextmanager
def reading(path: str) -> Iterator[None]:
    """What goes wrong with tables in here is told in one line.

    Raises:
        MutationQuotaError: with that line.
    """
    try:
        yield
    except TableNotFoundError:
        raise no_table(path) from None
    except (DeltaError, OSError, pa.ArrowInvalid, duckdb.InvalidInputException, duckdb.IOException) as error:
        why = str(error).splitlines()[0]  # what DuckDB is told of a reader that fails has many
        raise MutationQuotaError(
            f"{path} cannot be read without Spark: {why}; see that storage.root is reached, and whole"
        ) from None


def stands_at(source: Source) -> ds.Expression:
    """The rows of one record."""
    return (
        (ds.field("source", "offset") == source.offset)
        & (ds.field("source", "partition") == source.partition)
        & (ds.field("source", "topic") == source.topic)
    )


def moment(epoch_ms: int) -> pa.Scalar:
    """A time as the tables have it."""
    return pa.scalar(_EPOCH + epoch_ms * _MS, pa.timestamp("us", "UTC"))


def epoch_ms(found: datetime | None) -> int | None:
    """A time out of a table."""
    return None if found is None else (found - _EPOCH) // _MS


def source_of(row: Row) -> Source:
    """Where the record of a row stands."""
    return Source(**row["source"])
