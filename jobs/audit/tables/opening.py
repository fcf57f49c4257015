"""Opens Delta tables with deltalake, which needs no JVM."""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.table import SUPPORTED_READER_FEATURES

from jobs.audit.tables.specs import TableSpec, missing_error
from jobs.storage.stored_files import check_store, one_line, store_error
from quota.errors import MutationQuotaError
from quota.settings import Settings

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
