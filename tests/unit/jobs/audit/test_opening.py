"""Tables are opened in a store that may be unavailable, or reject requests."""

import socket
import time

import pytest
from deltalake.exceptions import CommitFailedError

from jobs.audit.tables.opening import TableStore
from jobs.audit.tables.specs import DECISIONS
from jobs.storage.stored_files import QUICK
from quota.errors import MutationQuotaError
from quota.settings import load_settings
from tests.support.object_store import refusing_store, store_overrides, store_settings


def quick_store(port):
    """Tables in the object store at a port, with few retries."""
    store = TableStore.of(store_settings(port))
    return TableStore(store.folder, {**store.options, **QUICK})


def test_other_threads_run_while_a_table_is_opened():
    """The store is one of these threads, so it could not respond otherwise. Another one renews a lease."""
    with refusing_store() as store:
        store.answer = (404, "NoSuchKey")
        assert not quick_store(store.server_port).has(DECISIONS)


def test_a_store_that_does_not_answer_delays_a_query_for_seconds_and_not_for_minutes():
    """A server that takes connections, and says nothing. deltalake itself would try again for three minutes."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        overrides = [*store_overrides(silent.getsockname()[1]), "storage.table_options.timeout=1s"]
        overrides.append("storage.table_options.RETRY_TIMEOUT=2s")
        settings = load_settings(overrides, environment={}, with_default_file=False)
        began = time.monotonic()
        with pytest.raises(MutationQuotaError, match="does not answer"):
            TableStore.of(settings).open(DECISIONS)
    assert time.monotonic() - began < 60


WRITTEN = "/srv/root/tables/decisions cannot be written: "
USED = "/srv/root/tables/decisions cannot be read or written: "
DISK = "Generic LocalFileSystem error: Unable to copy data to file: No space left on device (os error 28)"
QUICKER = "Failed to commit transaction: a concurrent transaction deleted data this operation read"
APPEND_ONLY = "The transaction includes Remove action with data change but Delta table is append-only"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (CommitFailedError(APPEND_ONLY), f"{WRITTEN}{APPEND_ONLY}"),
        (
            CommitFailedError(QUICKER),
            f"{WRITTEN}{QUICKER}; another program has changed the table meanwhile: run it again",
        ),
        (OSError(DISK), f"{USED}{DISK}; free some space there"),
        (
            OSError("Kernel error -> Generic error\n   \x1b[31m↳\x1b[0m no such disk\n"),
            f"{USED}Kernel error -> Generic error: no such disk; check that storage.root is reachable and complete",
        ),
    ],
)
def test_an_error_is_one_line_with_its_cause_and_advice(error, expected):
    with pytest.raises(MutationQuotaError) as raised, TableStore("/srv/root/tables", {}).errors(DECISIONS):
        raise error
    assert str(raised.value) == expected
