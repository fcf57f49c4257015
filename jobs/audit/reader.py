"""Reads the audit's tables without Spark, which takes one second instead of ten, also while jobs run."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyarrow.fs import FileSystem, LocalFileSystem, S3FileSystem, SubTreeFileSystem

from jobs.audit.tables import TableSpec, TableStore, open_known
from jobs.signals import cancelling_on_signal
from jobs.storage.stored_files import one_line
from jobs.storage.whole_file import whole_file
from quota.errors import MutationQuotaError
from quota.records.record import Source
from quota.settings import Settings

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_BLOCK_BYTES = 2**20
_MEMORY = "1GB"
"""The memory of DuckDB, above which it uses a temporary folder, because jobs may run on the same machine."""


class AuditTable:
    """A table of the audit, at the version that was current when it was opened."""

    def __init__(self, store: TableStore, table: TableSpec, stored: DeltaTable) -> None:
        """Wrap an opened table; no rows are read yet."""
        self._store = store
        self._table = table
        self._stored = stored

    @cached_property
    def _file_system(self) -> SubTreeFileSystem | None:
        return _arrow_file_system(self._store.path(self._table), self._store.options)

    def dates(self) -> list[date]:
        """Return the dates of the table's rows, from the first."""
        days = {partition["date"] for partition in self._stored.partitions()}
        return sorted(date.fromisoformat(day) for day in days if day)

    def newest(self, column: str) -> int | None:
        """Return the newest time of a column [epoch ms], from the statistics in the table's log; no rows are read.

        None for an empty table, or one whose files have no statistics of the column.
        """
        files = pa.table(self._stored.get_add_actions(flatten=True))
        if f"max.{column}" not in files.column_names:
            return None
        return to_epoch_ms(pc.max(files[f"max.{column}"]).as_py())

    def dataset(self, first: date | None = None, last: date | None = None) -> ds.Dataset:
        """Return the rows from the first to the last date, which are read within `read_errors`; None is no bound.

        Each file of the dataset takes two milliseconds, so give dates for a table that contains years.
        """
        bounds = [("date", operator, day) for operator, day in ((">=", first), ("<=", last)) if day is not None]
        with self._store.errors(self._table):
            return self._stored.to_pyarrow_dataset(filesystem=self._file_system, file_pruning_predicate=bounds or None)

    @contextmanager
    def files(self, first: date | None = None, last: date | None = None) -> Iterator[list[str]]:
        """Provide the Parquet files of `dataset` on a local disk: those of a store are copied."""
        dataset = self.dataset(first, last)
        files = dataset.filesystem
        if isinstance(files, SubTreeFileSystem) and isinstance(files.base_fs, LocalFileSystem):
            yield [f"{files.base_path}{name}" for name in dataset.files]
            return
        with tempfile.TemporaryDirectory(prefix="mutation-quota-") as folder:
            copies = {name: f"{folder}/{number}.parquet" for number, name in enumerate(dataset.files)}
            for name, copy in copies.items():
                with whole_file(Path(copy)) as out:
                    out.writelines(self._blocks(files, name))
            yield list(copies.values())

    def _blocks(self, files: FileSystem, name: str) -> Iterator[bytes]:
        with self._store.errors(self._table), files.open_input_stream(name) as stream:
            while block := stream.read(_BLOCK_BYTES):
                yield block

    def at(self, source: Source) -> pa.Table:
        """Return the rows of one record, whose date is not known; read within `read_errors`."""
        topic = source.topic.replace("'", "''")
        position = f"source['offset'] = {source.offset} AND source['partition'] = {source.partition}"
        position += f" AND source['topic'] = '{topic}'"
        return pa.RecordBatchReader.from_stream(self._stored.scan(predicate=position)).read_all()


def open_table(settings: Settings, table: TableSpec) -> AuditTable:
    """Open the current version of a table."""
    path = settings.storage.table(table.name)
    stored, version = open_known(settings, table)
    if version < table.version:
        raise MutationQuotaError(
            f"the table {path} has version {version}, and this program reads version {table.version}; "
            "upgrade it with mutation-quota audit --once"
        )
    return AuditTable(TableStore.of(settings), table, stored)


def _arrow_file_system(path: str, options: Mapping[str, str]) -> SubTreeFileSystem | None:
    """Return Arrow's file system for a table on a local disk or in S3; None for other stores.

    For those, deltalake's file system is used. It calls Python from Arrow's threads, and a thread that releases a file
    while the program exits sometimes aborts the program.
    """
    scheme, separator, key = path.partition("://")
    if separator and scheme in {"s3", "s3a"}:
        # Without credentials in the options it finds them like deltalake.
        store = S3FileSystem(
            access_key=options.get("aws_access_key_id"),
            secret_key=options.get("aws_secret_access_key"),
            session_token=options.get("aws_session_token"),
            region=options.get("aws_region"),
            endpoint_override=options.get("aws_endpoint") or None,
            force_virtual_addressing=options.get("aws_virtual_hosted_style_request", "").lower() == "true",
        )
        return SubTreeFileSystem(key, store)
    if separator and scheme != "file":
        return None
    local, folder = FileSystem.from_uri(path)
    return SubTreeFileSystem(folder, local)


def read_errors(settings: Settings) -> AbstractContextManager[None]:
    """Turn the errors of reading tables into one line (`jobs.audit.tables.TableStore.errors`)."""
    return TableStore.of(settings).errors(others=(duckdb.InvalidInputException, duckdb.IOException))


@contextmanager
def bounded_duckdb(memory: str = _MEMORY) -> Iterator[duckdb.DuckDBPyConnection]:
    """Provide a database for this process, in UTC and with bounded memory."""
    with tempfile.TemporaryDirectory(prefix="mutation-quota-") as folder, duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
        db.execute(f"SET memory_limit = '{memory}'")
        db.execute("SET temp_directory = $folder", {"folder": folder})
        try:
            with cancelling_on_signal(partial(_interrupt, db)):
                yield db
        except duckdb.OutOfMemoryException as error:  # it says what it needs, and how full the folder is
            raise MutationQuotaError(f"too many rows for the memory and the disk: {one_line(str(error))}") from None


def _interrupt(db: duckdb.DuckDBPyConnection) -> None:
    with suppress(duckdb.ConnectionException):  # it is closed meanwhile
        db.interrupt()


def to_datetime(epoch_ms: int) -> datetime:
    """Convert a time in epoch ms to a datetime in UTC, without rounding."""
    return _EPOCH + epoch_ms * _MS


def to_epoch_ms(time: datetime | None) -> int | None:
    """Convert a time of a table to epoch ms; None stays None."""
    return None if time is None else (time - _EPOCH) // _MS
