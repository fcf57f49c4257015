"""Monitors are polled while queries run; a store that does not respond for a short time does not end the job."""

import json
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JNetworkError

from jobs.metrics.query_observer import QueryObservation, QueryObserver
from jobs.storage import monitors
from jobs.storage.monitors import CheckpointMonitor, UserTopicsMonitor
from quota.errors import ClusterError, MutationQuotaError
from quota.settings import load_settings
from tests.support.memory_files import MemoryFiles, StoreError

ALICE = "mutation-requests.alice"


class Files(MemoryFiles):
    """A storage root that fails by the error of its attribute `error`."""

    error = None

    def _check(self):
        if self.error is not None:
            raise self.error

    @property
    def deployment(self):
        """The content of the one version, as a program that reads the store sees it."""
        (text,) = (text for path, text in self.texts.items() if path.startswith("deployment/"))
        return json.loads(text)


@pytest.fixture
def files():
    return Files()


@pytest.fixture
def topics(monkeypatch):
    """The topics of users on a cluster."""
    found = Mock()
    found.check.return_value = {ALICE: "a1"}
    monkeypatch.setattr(monitors, "UserTopics", lambda _: found)
    monkeypatch.setattr(monitors, "_USER_TOPICS_SECONDS", 0.0)
    return found


@pytest.fixture
def user_topics(files, topics):
    settings = load_settings(["topics.identity=topic"], environment={}, with_default_file=False)
    monitor = UserTopicsMonitor(files, settings)
    assert monitor._topics is topics  # noqa: SLF001 the one of this test, and no client of a broker
    return monitor


@pytest.fixture
def checkpoint(files):
    observer = QueryObserver()
    observer.observations = {"enforce": QueryObservation(has_checkpoint=True)}
    return CheckpointMonitor(files, observer, "enforce", 2)


@pytest.mark.parametrize("error", [StoreError(), OSError(28, "No space left on device")])
def test_topics_and_checkpoints_are_recorded_when_the_store_answers_again(
    files, user_topics, checkpoint, caplog, error
):
    files.error = error
    for monitor in (user_topics, checkpoint) * 3:
        monitor.poll()
    files.error = None
    for monitor in (user_topics, checkpoint):
        monitor.poll()
    assert files.deployment == {"topics": {ALICE: "a1"}, "retired": [], "checkpoints": {"enforce": 2}}
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(": ")[0] for line in lines] == [
        "cannot claim the topics of users",
        "cannot record the checkpoint of enforce",
    ]
    assert all(line.endswith(": retrying") and "\n" not in line for line in lines)
    files.error = StoreError("it is not written again")
    checkpoint.poll()


def test_a_recreated_topic_ends_the_job_and_a_cluster_that_does_not_respond_does_not(topics, user_topics):
    user_topics.poll()
    topics.check.side_effect = [ClusterError("no broker answers"), {ALICE: "a2"}]
    user_topics.poll()
    with pytest.raises(MutationQuotaError, match=r"its id was a1, now it is a2"):
        user_topics.poll()


@pytest.mark.parametrize("error", [Py4JNetworkError("no answer"), ConnectionRefusedError("no JVM")])
def test_a_jvm_that_has_exited_ends_the_job(files, user_topics, checkpoint, error):
    files.error = error
    for monitor in (user_topics, checkpoint):
        with pytest.raises(type(error)):
            monitor.poll()
