"""The leases of a service, and the one line where a storage root does not answer, whichever call meets it first."""

import json
import os
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JNetworkError

from jobs.buckets import store
from jobs.buckets.store import read_stored, restore_buckets
from jobs.services import spark as module
from jobs.services import streaming
from jobs.services.spark import claimed_deployment, hold_leases
from jobs.services.streaming import run_enforce
from jobs.spark.failures import with_operator_advice
from jobs.storage import files as storage_files
from jobs.storage.deployment import Deployment
from jobs.storage.files import DeploymentSession
from jobs.storage.lease import LeaseWatch
from quota.errors import BadInput, ClusterError, MutationQuotaError
from quota.settings import load_settings
from tests.support.memory_files import MemoryFiles, reject
from tests.support.object_store import store_settings


@pytest.fixture
def spark():
    """A session without queries."""
    return SimpleNamespace(streams=SimpleNamespace(active=[]))


@pytest.fixture
def files(monkeypatch):
    files = MemoryFiles()
    without_jvm(monkeypatch)
    return files


def without_jvm(monkeypatch):
    """Let this process stand for the JVM."""
    monkeypatch.setattr(module, "jvm_pid", lambda _: os.getpid())
    monkeypatch.setattr(module, "sign_of_life", lambda _: None)
    monkeypatch.setattr(module, "HaltTimer", Mock())


def watched():
    return [LeaseWatch("enforce"), LeaseWatch("audit")]


def ended(files):
    """Return whether each lease was released, by its query."""
    return {path.split("/")[1]: json.loads(text)["ended"] for path, text in files.texts.items()}


def fail_with(error, spark, files, stop=lambda: None):
    """Fail, while a query runs, after the leases were acquired."""
    settings = load_settings([], environment={}, with_default_file=False)
    with hold_leases(DeploymentSession(spark, settings, files, None), watched()):
        active = spark.streams.active
        active.append(SimpleNamespace(stop=lambda: (stop(), active.clear())))
        raise error


@pytest.mark.parametrize("error", [ValueError("the checkpoint is incomplete"), KeyboardInterrupt()])
def test_a_query_that_still_runs_after_an_error_is_stopped_before_its_lease_is_released(spark, files, error):
    seen = []
    with pytest.raises(type(error)):
        fail_with(error, spark, files, lambda: seen.append(ended(files)))
    assert seen == [{"enforce": False, "audit": False}]
    assert spark.streams.active == []
    assert ended(files) == {"enforce": True, "audit": True}


def test_a_lease_is_not_released_if_the_state_of_queries_is_unknown(spark, files):
    def stop():
        raise Py4JNetworkError("the JVM does not answer")

    with pytest.raises(ValueError, match="incomplete"):
        fail_with(ValueError("the checkpoint is incomplete"), spark, files, stop)
    assert ended(files) == {"enforce": False, "audit": False}


def test_a_missing_login_of_sparks_clients_is_reported_before_anything_is_started(monkeypatch):
    monkeypatch.setattr(module, "prepare_topics", lambda *_: pytest.fail("it connected to Kafka"))
    login = ["kafka.security_protocol=SASL_PLAINTEXT", "kafka.librdkafka.sasl.mechanism=GSSAPI"]
    settings = load_settings(login, environment={}, with_default_file=False)
    with pytest.raises(BadInput, match=r"^kafka\.java needs sasl\.mechanism"), claimed_deployment(settings, "enforce"):
        pytest.fail("there is no login")


def admin_that_sees(*topics):
    """Return an admin client whose cluster has these topics, one list after the other, and then the last one."""
    layouts = [SimpleNamespace(topics=dict.fromkeys(names)) for names in topics]
    return SimpleNamespace(layout=lambda: layouts.pop(0) if layouts[1:] else layouts[0])


@pytest.mark.parametrize(
    ("seen", "prepared"),
    [([["mutation-decisions"]], False), ([["mutation-decisions"], ["mutation-decisions", "mutation-requests"]], True)],
)
def test_a_topic_that_the_root_belongs_to_is_not_created_again_and_a_broker_may_learn_of_it_late(
    seen, prepared, tmp_path, monkeypatch
):
    """It would not be the topic of the root, and the job could not use it."""
    (tmp_path / "deployment").mkdir()
    topics = {"mutation-requests": "A", "mutation-decisions": "B", "mutation-results": "C"}
    (tmp_path / "deployment" / "1").write_text(json.dumps({"topics": topics}))
    settings = load_settings(
        [f"storage.root={tmp_path}", "kafka.timeout_seconds=0.5"], environment={}, with_default_file=False
    )
    monkeypatch.setattr(module, "TopicAdmin", lambda *_: admin_that_sees(*seen))
    monkeypatch.setattr(module, "prepare_topics", Mock(side_effect=ClusterError("it prepares them")))
    message = f"topic mutation-requests, which {tmp_path} belongs to, was deleted"
    expected = "it prepares them" if prepared else message
    with pytest.raises(MutationQuotaError, match=f"^{expected}"), claimed_deployment(settings, "enforce"):
        pytest.fail("it starts")


ENDED = (
    "enforce failed: java.net.ConnectException: open on s3a://bucket/root: Connection refused; "
    "see docs/reference/errors.md#spark"
)


class NoCalls:
    """Files that can be opened, and fail then."""

    root = "s3a://bucket/root"
    read = write = names = remove = staticmethod(reject)

    def __init__(self, *_):
        pass

    def close(self):
        pass


@pytest.fixture
def settings():
    return store_settings(9000)


@pytest.fixture
def unreachable(settings):
    return DeploymentSession(None, settings, NoCalls(), None)


@contextmanager
def ending(settings):
    """Expect the one line inside the block, where a session is."""
    with pytest.raises(MutationQuotaError) as raised, with_operator_advice(settings):
        yield
    assert str(raised.value) == ENDED


def test_a_silent_store_is_one_line_when_a_service_opens_it(settings, monkeypatch):
    monkeypatch.setattr(module, "open_files", reject)
    monkeypatch.setattr(module, "spark_session", lambda *_: nullcontext())
    monkeypatch.setattr(module, "check_root", lambda *_, **__: Deployment())
    monkeypatch.setattr(module, "TopicAdmin", lambda *_: admin_that_sees([]))
    monkeypatch.setattr(module, "prepare_topics", lambda *_: {})
    with ending(settings), claimed_deployment(settings, "enforce"):
        pytest.fail("there is no session")


def test_a_silent_store_is_one_line_when_a_lease_is_acquired(settings, unreachable, monkeypatch):
    without_jvm(monkeypatch)
    with ending(settings), hold_leases(unreachable, watched()):
        pytest.fail("there is no lease")


def test_a_silent_store_is_one_line_when_the_state_is_discarded(settings, unreachable, monkeypatch):
    endpoint = SimpleNamespace(following=lambda *_, **__: nullcontext())
    monkeypatch.setattr(streaming, "ServiceEndpoint", lambda *_, **__: nullcontext(endpoint))
    monkeypatch.setattr(streaming, "claimed_deployment", lambda *_, **__: nullcontext(unreachable))
    with ending(settings):
        run_enforce(settings, once=True, reset=True)


@pytest.mark.parametrize("files", [reject, NoCalls], ids=["opened", "called"])
def test_a_silent_store_is_one_line_when_buckets_are_listed(settings, files, monkeypatch):
    monkeypatch.setattr(storage_files, "open_files", files)
    monkeypatch.setattr(store, "spark_session_with_progress", lambda *_: nullcontext())
    with ending(settings):
        read_stored(settings, list)


def test_a_silent_store_is_one_line_when_buckets_are_restored(settings, unreachable):
    with ending(settings):
        restore_buckets(unreachable, SimpleNamespace(header=SimpleNamespace(topics={}, positions={})))
