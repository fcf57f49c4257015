"""The tables of the audit, read without Spark: as datasets of Arrow."""

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from jobs.storage import delta_options, table_path
from jobs.tables import VERSION_PROPERTY, AuditTable
from quota.errors import BadInput, MutationQuotaError
from quota.settings import Settings


def dataset(settings: Settings, table: AuditTable) -> ds.Dataset:
    """A table as of now; what it holds is read when it is asked, within `reading`.

    Raises:
        MutationQuotaError: there is none, it cannot be reached, or it is of another version.
    """
    path = table_path(settings, table.name)
    with reading(path):
        there = DeltaTable(path, storage_options=delta_options(settings))
        _check(table, path, there.metadata().configuration.get(VERSION_PROPERTY))
        return there.to_pyarrow_dataset()


@contextmanager
def reading(path: str) -> Iterator[None]:
    """What goes wrong with tables in here is told in one line.

    Raises:
        MutationQuotaError: with that line.
    """
    try:
        yield
    except TableNotFoundError:
        raise BadInput(
            f"there is no table {path}: nothing was audited there yet; start mutation-quota audit, or set storage.root"
        ) from None
    except (DeltaError, OSError, duckdb.InvalidInputException, duckdb.IOException) as error:
        why = str(error).splitlines()[0]  # what DuckDB is told of a reader that fails has many
        raise MutationQuotaError(f"cannot read {path}: {why}; see that storage.root is reached, and whole") from None


def _check(table: AuditTable, path: str, version: str | None) -> None:
    if version is None or not version.isdecimal():
        raise MutationQuotaError(f"the table {path} is none of the audit's (it has no {VERSION_PROPERTY})")
    if int(version) > table.version:
        raise MutationQuotaError(
            f"the table {path} was written by a newer program, as version {version} (this one reads version "
            f"{table.version}); use that program"
        )
    if int(version) < table.version:
        raise MutationQuotaError(
            f"the table {path} is of version {version}, and this program reads version {table.version}; "
            "mutation-quota audit --once brings it up to that"
        )
