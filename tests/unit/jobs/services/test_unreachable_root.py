"""A storage root that does not answer is one line with advice, whichever call meets it first."""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from jobs.buckets import moving, store
from jobs.buckets.listing import BucketQuery, Order
from jobs.buckets.moving import restore_buckets
from jobs.buckets.store import list_buckets
from jobs.services import enforce, queries, session
from jobs.services.enforce import run_enforce
from jobs.services.queries import deployment_monitor
from jobs.services.session import hold_leases
from jobs.spark.operator_advice import with_operator_advice
from quota.errors import MutationQuotaError
from tests.support.memory_files import refuse
from tests.support.object_store import store_settings

ENDED = (
    "enforce failed: s3a://bucket/root cannot be used: http://127.0.0.1:9000 does not answer; check storage.options "
    "fs.s3a.endpoint, and that the store runs; then start it again: it continues from its checkpoint, and nothing is "
    "lost"
)


class NoCalls:
    """Files that can be opened, and fail then."""

    root = "s3a://bucket/root"
    read = write = names = remove = staticmethod(refuse)

    def __init__(self, *_):
        pass


@pytest.fixture
def settings():
    return store_settings(9000)


@contextmanager
def ending(settings):
    """Expect the one line inside the block, where a session is."""
    with pytest.raises(MutationQuotaError) as raised, with_operator_advice(settings):
        yield
    assert str(raised.value) == ENDED


@pytest.fixture(params=[refuse, NoCalls], ids=["opened", "called"])
def files(request):
    return request.param


def test_at_the_lease(settings, files, monkeypatch):
    monkeypatch.setattr(session, "Files", files)
    monkeypatch.setattr(session, "jvm_pid", lambda _: 1)
    with ending(settings), hold_leases(None, settings, ["enforce", "audit"]):
        pytest.fail("there is no lease")


def test_when_the_state_is_discarded(settings, files, monkeypatch):
    endpoint = SimpleNamespace(following=lambda *_, **__: nullcontext())
    monkeypatch.setattr(enforce, "Files", files)
    monkeypatch.setattr(enforce, "ServiceEndpoint", lambda *_, **__: nullcontext(endpoint))
    monkeypatch.setattr(enforce, "deployment_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr(enforce, "_log_callback", lambda _: None)
    with ending(settings):
        run_enforce(settings, once=True, reset=True)


def test_when_the_queries_are_watched(settings, monkeypatch):
    monkeypatch.setattr(queries, "Files", refuse)
    with ending(settings):
        deployment_monitor(None, settings, [])


def test_when_buckets_are_listed(settings, files, monkeypatch):
    monkeypatch.setattr(store, "Files", files)
    monkeypatch.setattr(store, "check_store", lambda _: None)
    monkeypatch.setattr(store, "command_session", lambda *_: nullcontext())
    with ending(settings):
        list_buckets(settings, BucketQuery({}, in_debt=False, order=Order.TOKENS, limit=1), lambda: 0)


def test_when_buckets_are_restored(settings, files, monkeypatch):
    monkeypatch.setattr(moving, "Files", files)
    with ending(settings):
        restore_buckets(None, settings, SimpleNamespace(header=SimpleNamespace(topics={}, positions={})))
