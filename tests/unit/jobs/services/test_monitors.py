"""Monitors are polled while queries run, also of a store that pauses; and the topics that a storage root belongs to."""

import json
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JNetworkError

from jobs.metrics.queries import QueryObservation, QueryObserver
from jobs.services import monitors
from jobs.services.monitors import CheckpointMonitor, UserTopicsMonitor
from jobs.storage.deployment import Deployment, claim_storage, claim_topics, forget_checkpoint, record_checkpoint
from quota.errors import ClusterError, MutationQuotaError
from quota.settings import Settings, load_settings
from tests.support.memory_files import MemoryFiles, StoreError

TOPIC_OF_ALICE = "mutation-requests.alice"


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
    mock = Mock()
    mock.check.return_value = {TOPIC_OF_ALICE: "a1"}
    monkeypatch.setattr(monitors, "UserTopics", lambda *_: mock)
    monkeypatch.setattr(monitors, "_USER_TOPICS_SECONDS", 0.0)
    return mock


@pytest.fixture
def user_topics(files, topics):
    settings = load_settings(["topics.identity=topic"], environment={}, with_default_file=False)
    monitor = UserTopicsMonitor(files, settings, None)
    assert monitor._topics is topics  # noqa: SLF001 the one of this test, and no client of a broker
    return monitor


@pytest.fixture
def observer():
    """An observer of a query that has finished a batch."""
    observer = QueryObserver(Settings())
    observer.observations = {"enforce": QueryObservation(has_checkpoint=True)}
    return observer


@pytest.fixture
def checkpoint(files, observer):
    return CheckpointMonitor(files, observer, "enforce", 2, Deployment(checkpoints={"enforce": 1}))


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
    assert files.deployment == {"topics": {TOPIC_OF_ALICE: "a1"}, "retired": [], "checkpoints": {"enforce": 2}}
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(": ")[0] for line in lines] == [
        "cannot claim the topics of users",
        "cannot record the checkpoint of enforce",
    ]
    assert all(line.endswith(": retrying") and "\n" not in line for line in lines)
    files.error = StoreError("it is not written again")
    checkpoint.poll()


def test_a_checkpoint_that_was_known_at_the_start_is_not_recorded_again(files, observer):
    for known, texts in (({"enforce": 2}, 0), ({}, 1)):
        CheckpointMonitor(files, observer, "enforce", 2, Deployment(checkpoints=known)).poll()
        assert len(files.texts) == texts


def test_a_recreated_topic_ends_the_job_and_a_cluster_that_does_not_respond_does_not(topics, user_topics):
    user_topics.poll()
    topics.check.side_effect = [ClusterError("no broker answers"), {TOPIC_OF_ALICE: "a2"}]
    user_topics.poll()
    with pytest.raises(MutationQuotaError, match=r"its id was a1, now it is a2"):
        user_topics.poll()


@pytest.mark.parametrize("error", [Py4JNetworkError("no answer"), ConnectionRefusedError("no JVM")])
def test_a_jvm_that_has_exited_ends_the_job(files, user_topics, checkpoint, error):
    files.error = error
    for monitor in (user_topics, checkpoint):
        with pytest.raises(type(error)):
            monitor.poll()


QUOTAS = {"mutation-quotas": "q1"}
ALICE, BOB = {"mutation-requests.alice": "a1"}, {"mutation-requests.bob": "b1"}


def by_topic(*overrides):
    return load_settings(["topics.identity=topic", *overrides], environment={}, with_default_file=False)


BY_PAYLOAD = load_settings([], environment={}, with_default_file=False)


def test_a_missing_topic_is_an_error_unless_it_is_retired_and_a_retired_one_must_not_reappear():
    deployment = Deployment(QUOTAS | ALICE | BOB)
    with pytest.raises(MutationQuotaError, match=r"topic mutation-requests.bob was deleted.*topics.retired_users"):
        deployment.with_all_topics(ALICE, by_topic())
    retired = deployment.with_all_topics(ALICE, by_topic("topics.retired_users=bob"))
    assert retired.with_all_topics(ALICE, by_topic()) == retired  # the setting was for one start
    with pytest.raises(MutationQuotaError, match="bob is not the topic"):
        retired.with_all_topics({"mutation-requests.bob": "b2"}, by_topic())


def test_only_a_deleted_topic_can_be_retired():
    deployment = Deployment(QUOTAS | ALICE | BOB)
    assert deployment.with_all_topics(ALICE | BOB, by_topic("topics.retired_users=bob,eve")).retired == []


def test_the_source_of_the_user_must_not_change():
    with pytest.raises(MutationQuotaError, match="a different topics"):
        Deployment({"mutation-requests": "r1"}).with_topics(ALICE, by_topic())
    with pytest.raises(MutationQuotaError, match="a different topics"):
        Deployment(ALICE).with_topics({"mutation-requests": "r1"}, BY_PAYLOAD)


def test_other_topics_may_have_any_names():
    names = {"mutation-requests": "r1", "mutation-requests.decisions": "d1"}
    settings = load_settings(["topics.decisions=mutation-requests.decisions"], environment={}, with_default_file=False)
    deployment = Deployment().with_topics(names, settings)
    assert deployment.with_topics({"mutation-requests": "r1"}, settings) == deployment


def claims(files):
    claim_storage(files, BY_PAYLOAD, {"mutation-requests": "r1", "mutation-decisions": "d1"})


def enforce_claims(files):
    claims(files)
    record_checkpoint(files, "enforce", 3)


def audit_claims(files):
    claim_topics(files, BY_PAYLOAD, {"mutation-decisions": "d1", "mutation-quotas": "q1"})
    record_checkpoint(files, "audit", 2)


def others_claim(files):
    record_checkpoint(files, "audit", 1)
    forget_checkpoint(files, "audit")
    enforce_claims(files)


@pytest.mark.parametrize("calls", range(1, 10))
@pytest.mark.parametrize("others", [claims, others_claim])
def test_of_programs_that_change_the_facts_at_once_none_loses_its_own(calls, others):
    """The other ones do so before one call of the first one until its own is recorded, once or several times.

    With the last numbers, it has no such call any more.
    """
    files = MemoryFiles()

    class Interrupted:
        root, left = files.root, calls

        def __getattr__(self, name):
            self.left -= 1
            if not self.left:
                others(files)
            return getattr(files, name)

    interrupted = Interrupted()
    audit_claims(interrupted)
    if interrupted.left > 0:
        claims(files)
    record_checkpoint(files, "enforce", 3)
    deployment = Deployment.read(files)
    assert deployment.topics == {"mutation-requests": "r1", "mutation-decisions": "d1", **QUOTAS}
    assert deployment.checkpoints == {"enforce": 3, "audit": 2}
    with pytest.raises(MutationQuotaError, match=r"its id was r1, now it is r2"):
        claim_storage(files, BY_PAYLOAD, {"mutation-requests": "r2"})
    assert len(files.names("deployment")) == 1
