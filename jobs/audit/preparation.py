"""Prepares the Delta tables: creates missing tables, checks existing ones, and upgrades them to the current version."""

import json
import logging
from collections.abc import Callable, Sequence

import pyarrow as pa
from deltalake import DeltaTable, Schema, write_deltalake
from pyspark.sql.types import ArrayType, DataType, StructType

from jobs.audit.tables import PROPERTIES, TABLES, VERSION_PROPERTY, TableSpec, TableStore, check_writable, open_known
from quota.settings import Settings
from quota.settings.storage import table_folder

_log = logging.getLogger(__name__)


def missing_tables(settings: Settings, tables: Sequence[TableSpec] = TABLES) -> list[str]:
    """Return the names of the tables that do not exist."""
    store = TableStore.of(settings)
    return [table.name for table in tables if not store.has(table)]


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
        _set_missing_properties(opened)
        if version == table.version:
            return
        _upgrade(opened, table)
    _log.info(
        "upgraded the table %s from version %d to version %d; new columns: %s",
        path,
        version,
        table.version,
        ", ".join(missing) or "none",
    )


def _set_missing_properties(opened: DeltaTable) -> None:
    """Set the properties that are missing in a table of an older program."""
    present = opened.metadata().configuration
    missing = {name: value for name, value in PROPERTIES.items() if name not in present}
    if missing:
        opened.alter.set_table_properties(missing)
        opened.update_incremental()


def _upgrade(opened: DeltaTable, table: TableSpec) -> None:
    no_rows = pa.schema(Schema.from_json(table.schema.json()).to_arrow()).empty_table()
    write_deltalake(opened, no_rows, mode="append", schema_mode="merge")
    opened.update_incremental()
    opened.alter.set_table_properties({VERSION_PROPERTY: str(table.version)}, raise_if_not_exists=False)


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
