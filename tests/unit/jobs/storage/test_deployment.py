"""The topics that a storage root belongs to, if users have their own topics."""

import pytest

from jobs.storage.deployment import Deployment, claim_storage, forget_checkpoint, record_checkpoint
from quota.errors import MutationQuotaError
from quota.settings import load_settings
from tests.support.memory_files import MemoryFiles

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


def enforce_claims(files):
    claim_storage(files, BY_PAYLOAD, {"mutation-requests": "r1", "mutation-decisions": "d1"})
    record_checkpoint(files, "enforce", 3)


def audit_claims(files):
    claim_storage(files, BY_PAYLOAD, {"mutation-decisions": "d1", "mutation-quotas": "q1"}, all_there=False)
    record_checkpoint(files, "audit", 2)


def removed(files):
    record_checkpoint(files, "audit", 1)
    forget_checkpoint(files, "audit")


@pytest.mark.parametrize("calls", range(1, 12))
@pytest.mark.parametrize("there", [{}, {"deployment.json": '{"topics": {"mutation-decisions": "d1"}}'}])
def test_of_programs_that_change_the_facts_at_once_none_loses_its_own(calls, there):
    """The other ones do so before one call of the first one; with the last numbers, it has no such call any more."""
    files = MemoryFiles()
    files.texts.update(there)

    class Interrupted:
        root, left = files.root, calls

        def __getattr__(self, name):
            self.left -= 1
            if not self.left:
                removed(files)
                enforce_claims(files)
            return getattr(files, name)

    interrupted = Interrupted()
    audit_claims(interrupted)
    if interrupted.left > 0:
        enforce_claims(files)
    found = Deployment.read(files)
    assert found.topics == {"mutation-requests": "r1", "mutation-decisions": "d1", **QUOTAS}
    assert found.checkpoints == {"enforce": 3, "audit": 2}
    with pytest.raises(MutationQuotaError, match=r"its id was r1, now it is r2"):
        claim_storage(files, BY_PAYLOAD, {"mutation-requests": "r2"})
    assert len(files.names("deployment")) == 1
