"""The Delta tables: their definitions and versions, and how deltalake, which needs no JVM, opens and prepares them."""

import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.table import SUPPORTED_READER_FEATURES
from pyspark.sql.types import ArrayType, DataType, StructType

from jobs.storage.stored_files import check_store, one_line, store_error
from quota.errors import MutationQuotaError, NotFound
from quota.settings import Settings
from quota.settings.storage import table_folder
from schemas import tables as columns
from schemas import versions

_log = logging.getLogger(__name__)

VERSION_PROPERTY = "mutationQuota.schemaVersion"
"""The table property that holds the version of a table."""

PROPERTIES = {
    # The audit makes 8,640 commits a day, and each file of the log adds to the time of listing it.
    "delta.logRetentionDuration": "interval 2 days",
    "delta.deletedFileRetentionDuration": "interval 2 days",
    # Opening a table reads the newest checkpoint and each commit after it. A checkpoint also names the files that were
    # removed within two days, and has 2.4 MB then. With every tenth commit, the checkpoints of two days had 4 GB.
    "delta.checkpointInterval": "30",
}
"""The properties of a table that bound its log, unless an operator has set others."""

_REBUILT = "the audit then stores again all records that are still in its topics"
"""The effect of moving the tables and the audit's checkpoint away."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A Delta table, partitioned by `date`."""

    name: str
    """The name of its folder."""
    schema: StructType
    version: int
    dated: bool = True
    """Whether copies of a record have the same date; a record without its own timestamp gets that of its copy."""

    def read_version(self, path: str, properties: Mapping[str, str]) -> int:
        """Return the version of a table from its properties."""
        version = properties.get(VERSION_PROPERTY, "")
        if not version.isdecimal():
            raise self.foreign_error(path, f"it has no {VERSION_PROPERTY}")
        if int(version) > self.version:
            raise MutationQuotaError(
                f"the table {path} was written by a newer program, as version {version} (this one writes version "
                f"{self.version}); start that program again, or move the table and checkpoints/audit away "
                f"({_REBUILT})"
            )
        return int(version)

    def foreign_error(self, path: str, reason: str) -> MutationQuotaError:
        """Return the error for a path that contains something else."""
        return MutationQuotaError(
            f"{path} is not a table of this version ({reason}); move it away, and checkpoints/audit "
            f"with it ({_REBUILT}), or set another storage.root"
        )


DECISIONS = TableSpec("decisions", columns.DECISIONS, versions.DECISIONS)
DEAD_LETTERS = TableSpec("dead_letters", columns.DEAD_LETTERS, versions.DEAD_LETTERS, dated=False)
QUOTA_CHANGES = TableSpec("quota_changes", columns.QUOTA_CHANGES, versions.QUOTA_CHANGES)

TABLES = (DECISIONS, DEAD_LETTERS, QUOTA_CHANGES)
"""The tables that the audit writes."""


class MissingTable(NotFound):
    """A table does not exist."""


def missing_error(path: str) -> MissingTable:
    """Return the error for a table that does not exist."""
    return MissingTable(f"there is no table {path}: run mutation-quota audit first, or correct storage.root")


_WRITER_FEATURES = SUPPORTED_READER_FEATURES | {
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "generatedColumns",
    "invariants",
}
"""The table features that an operator may enable and that deltalake can write."""

_CONFLICT = re.compile("concurrent|Failed to commit|version already exists", re.IGNORECASE)
"""In errors of commits that another program was quicker than."""

_TEMPORARY = "duckdb_temp"
"""In errors of DuckDB's temporary files."""

_RUN_AGAIN = "another program has changed the table meanwhile: run it again"


@dataclass(frozen=True, slots=True)
class TableStore:
    """The location of the tables and the options to access them: all settings that a worker needs."""

    folder: str
    """The folder of all tables: a URL or an absolute path."""
    options: Mapping[str, str] = field(repr=False)
    """deltalake's `storage_options`, which may contain secrets."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the store of a deployment."""
        return cls(settings.storage.tables, settings.storage.deltalake())

    def path(self, table: TableSpec) -> str:
        """Return the path of a table."""
        return f"{self.folder}/{table.name}"

    @contextmanager
    def errors(self, table: TableSpec | None = None, others: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Turn the errors of a table into one line."""
        root, _, folder = self.folder.rpartition("/")
        path = f"{folder}/{table.name}" if table else folder
        try:
            yield
        except TableNotFoundError:
            raise missing_error(f"{root}/{path}") from None
        except CommitFailedError as error:
            text = str(error)
            advice = f"; {_RUN_AGAIN}" if _CONFLICT.search(text) else ""
            raise MutationQuotaError(f"{root}/{path} cannot be written: {one_line(text)}{advice}") from None
        except (DeltaError, OSError, pa.ArrowInvalid, *others) as error:
            text = str(error) or type(error).__name__
            if _TEMPORARY in text:
                raise MutationQuotaError(f"a temporary file is not written, see TMPDIR: {one_line(text)}") from None
            raise store_error(root, path, "cannot be read or written", text) from None

    def has(self, table: TableSpec) -> bool:
        """Return whether a table exists."""
        return self.find(table) is not None

    def find(self, table: TableSpec) -> DeltaTable | None:
        """Open the current state of a table of any version; None if it does not exist."""
        with self.errors(table):
            try:
                # Unlike DeltaTable.is_deltatable, this lets other threads run while a store does not respond.
                return DeltaTable(self.path(table), storage_options=dict(self.options))
            except TableNotFoundError:
                return None

    def open(self, table: TableSpec) -> DeltaTable:
        """Open the current state of a table of any version."""
        opened = self.find(table)
        if opened is None:
            raise missing_error(self.path(table))
        return opened


def open_known(settings: Settings, table: TableSpec) -> tuple[DeltaTable, int]:
    """Open a deployment's table, and return it with its version."""
    check_store(settings)  # deltalake retries for longer, and its error says little
    store = TableStore.of(settings)
    path, opened = store.path(table), store.open(table)
    version = table.read_version(path, opened.metadata().configuration)
    _check_features(path, "read", opened.protocol().reader_features, SUPPORTED_READER_FEATURES)
    return opened, version


def check_writable(path: str, opened: DeltaTable) -> None:
    """Check that deltalake can write a table with all of its features."""
    _check_features(path, "write", opened.protocol().writer_features, _WRITER_FEATURES)


def _check_features(path: str, verb: str, features: Collection[str] | None, supported: Collection[str]) -> None:
    unsupported = sorted(set(features or ()) - set(supported))
    if unsupported:
        raise MutationQuotaError(
            f"the table {path} has the Delta feature {' and '.join(unsupported)}, "
            f"and this program cannot {verb} such tables; remove it with ALTER TABLE delta.`{path}` DROP FEATURE "
            f"{unsupported[0]} TRUNCATE HISTORY, now and again after the table's log retention, or move the table away"
        )


def missing_tables(settings: Settings) -> list[str]:
    """Return the names of the tables that do not exist."""
    store = TableStore.of(settings)
    return [table.name for table in TABLES if not store.has(table)]


def prepare_tables(
    settings: Settings, names: Callable[[str], Sequence[str]], tables: Sequence[TableSpec] = TABLES
) -> None:
    """Create missing tables, check existing ones, and add the columns that are missing in older versions.

    `names` returns the names in a folder of the storage root; none if the folder does not exist.
    """
    store = TableStore.of(settings)
    for table in tables:
        if store.has(table):
            _check(settings, table)
        else:
            _create(store, names, table)


def _create(store: TableStore, names: Callable[[str], Sequence[str]], table: TableSpec) -> None:
    folder = table_folder(table.name)
    path = store.path(table)
    others = [name for name in names(folder) if name != "_delta_log"]
    # A full disk leaves temporary files of a first commit, which Delta ignores.
    others += [name for name in names(f"{folder}/_delta_log") if not name.startswith((".", "_"))]
    if others:
        raise table.foreign_error(path, f"it contains {others[0]}, but no commit log")
    with store.errors(table):
        DeltaTable.create(
            path,
            Schema.from_json(table.schema.json()),
            mode="ignore",  # another audit may have created it meanwhile
            partition_by="date",
            configuration=PROPERTIES | {VERSION_PROPERTY: str(table.version)},
            storage_options=dict(store.options),
            raise_if_key_not_exists=False,
        )


def _check(settings: Settings, table: TableSpec) -> None:
    opened, version = open_known(settings, table)
    path = settings.storage.table(table.name)
    stored = StructType.fromJson(json.loads(opened.schema().to_json()))
    differences = _differences(table.schema, stored)
    missing = [name for name, kind in differences.items() if kind is None]
    if len(missing) < len(differences) or (missing and version == table.version):
        raise table.foreign_error(
            path, f"version {version} with different or missing columns: {', '.join(differences)}"
        )
    check_writable(path, opened)
    with TableStore.of(settings).errors(table):
        present = opened.metadata().configuration
        if properties := {name: value for name, value in PROPERTIES.items() if name not in present}:
            opened.alter.set_table_properties(properties)
            opened.update_incremental()
        if version == table.version:
            return
        no_rows = pa.schema(Schema.from_json(table.schema.json()).to_arrow()).empty_table()
        write_deltalake(opened, no_rows, mode="append", schema_mode="merge")
        opened.update_incremental()
        opened.alter.set_table_properties({VERSION_PROPERTY: str(table.version)}, raise_if_not_exists=False)
    _log.info(
        "upgraded the table %s from version %d to version %d; new columns: %s",
        path,
        version,
        table.version,
        ", ".join(missing) or "none",
    )


def _differences(expected: DataType, stored: DataType, name: str = "") -> dict[str, DataType | None]:
    """Return the type of each column and field that differs, by its path; None where it is missing.

    Additional columns and a different order are ignored.
    """
    if isinstance(expected, StructType) and isinstance(stored, StructType):
        differences: dict[str, DataType | None] = {}
        types = {field.name: field.dataType for field in stored}
        for field in expected:
            path = f"{name}.{field.name}" if name else field.name
            if field.name in types:
                differences |= _differences(field.dataType, types[field.name], path)
            else:
                differences[path] = None
        return differences
    if isinstance(expected, ArrayType) and isinstance(stored, ArrayType):
        return _differences(expected.elementType, stored.elementType, f"{name}.element")
    return {} if expected == stored else {name: stored}
