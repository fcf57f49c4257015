"""The leases of a service, around its queries."""

import json
import os
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError

from jobs.services import session
from jobs.services.session import deployment_session, hold_leases
from jobs.storage.run import Run
from quota.errors import BadInput
from quota.settings import load_settings
from tests.support.memory_files import MemoryFiles


@pytest.fixture
def spark():
    """A session without queries."""
    return SimpleNamespace(streams=SimpleNamespace(active=[]))


@pytest.fixture
def store(monkeypatch):
    files = MemoryFiles()
    monkeypatch.setattr(session, "jvm_pid", lambda _: os.getpid())
    return files


def ended(store):
    """Return whether each lease was released, by its query."""
    return {path.split("/")[1]: json.loads(text)["ended"] for path, text in store.texts.items()}


def fail_with(error, spark, store, stop=lambda: None):
    """Fail, while a query runs, after the leases were acquired."""
    settings = load_settings([], environment={}, with_default_file=False)
    with hold_leases(Run(spark, settings, store), ["enforce", "audit"]):
        active = spark.streams.active
        active.append(SimpleNamespace(stop=lambda: (stop(), active.clear())))
        raise error


@pytest.mark.parametrize("error", [ValueError("the checkpoint is incomplete"), KeyboardInterrupt()])
def test_a_query_that_still_runs_after_an_error_is_stopped_before_its_lease_is_released(spark, store, error):
    seen = []
    with pytest.raises(type(error)):
        fail_with(error, spark, store, lambda: seen.append(ended(store)))
    assert seen == [{"enforce": False, "audit": False}]
    assert spark.streams.active == []
    assert ended(store) == {"enforce": True, "audit": True}


def test_a_lease_is_not_released_if_the_state_of_queries_is_unknown(spark, store):
    def stop():
        raise Py4JNetworkError("the JVM does not answer")

    with pytest.raises(ValueError, match="incomplete"):
        fail_with(ValueError("the checkpoint is incomplete"), spark, store, stop)
    assert ended(store) == {"enforce": False, "audit": False}


def test_a_missing_login_of_sparks_clients_is_reported_before_anything_is_started(monkeypatch):
    monkeypatch.setattr(session, "prepare_topics", lambda *_: pytest.fail("it connected to Kafka"))
    login = ["kafka.security_protocol=SASL_PLAINTEXT", "kafka.librdkafka.sasl.mechanism=GSSAPI"]
    settings = load_settings(login, environment={}, with_default_file=False)
    with pytest.raises(BadInput, match=r"^kafka\.java needs sasl\.mechanism"), deployment_session(settings, "enforce"):
        pytest.fail("there is no login")
