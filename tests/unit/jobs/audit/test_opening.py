"""Tables are opened in a store that may be down, or refuse."""

from jobs.audit.tables.opening import TableStore
from jobs.audit.tables.specs import DECISIONS
from jobs.storage.stored_files import QUICK
from tests.support.object_store import refusing_store, store_settings


def test_other_threads_run_while_a_store_is_asked_for_a_table():
    """The store is one of them, so without them it could not answer. A lease is renewed by another."""
    with refusing_store() as store:
        store.answer = (404, "NoSuchKey")
        asked = TableStore.of(store_settings(store.server_port))
        assert not TableStore(asked.folder, {**asked.options, **QUICK}).has(DECISIONS)
