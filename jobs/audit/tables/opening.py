"""Opening a Delta table by deltalake, which needs no JVM."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from jobs.audit.tables.specs import TableSpec, missing_error
from quota.errors import MutationQuotaError
from quota.settings import Settings


@contextmanager
def table_errors(path: str, others: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn the errors of a table into one line.

    Args:
        path: the table, or the folder of all tables.
        others: the errors of the library that reads the table's rows.

    Raises:
        MutationQuotaError: the table does not exist, or cannot be read or written.
    """
    try:
        yield
    except TableNotFoundError:
        raise missing_error(path) from None
    except CommitFailedError as error:
        raise MutationQuotaError(f"{path} cannot be written: {str(error).rstrip('.')}") from None
    except (DeltaError, OSError, pa.ArrowInvalid, *others) as error:
        why = str(error).splitlines()[0]
        raise MutationQuotaError(
            f"{path} cannot be read or written: {why}; check that storage.root is reachable, and complete"
        ) from None


def open_delta(settings: Settings, table: TableSpec) -> DeltaTable:
    """Open the present state of a table of any version.

    Raises:
        MutationQuotaError: it does not exist, or cannot be read.
    """
    path = settings.storage.table(table.name)
    with table_errors(path):
        return DeltaTable(path, storage_options=settings.storage.deltalake())


def stored_version(settings: Settings, table: TableSpec, opened: DeltaTable) -> int:
    """Return the version of a table.

    Raises:
        MutationQuotaError: it is no table of ours, or that of a newer program.
    """
    return table.read_version(settings.storage.table(table.name), opened.metadata().configuration)
