"""The topics that a storage root belongs to, if users have their own topics."""

import pytest

from jobs.storage.deployment import Deployment, claim_storage
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


def test_of_two_programs_that_claim_a_new_root_at_once_neither_loses_its_topics():
    files = MemoryFiles()

    def read_before_the_other(path):
        del files.read
        found = files.read(path)
        claim_storage(files, BY_PAYLOAD, {"mutation-requests": "r1", "mutation-decisions": "d1"})
        return found

    files.read = read_before_the_other
    claim_storage(files, BY_PAYLOAD, {"mutation-decisions": "d1", "mutation-quotas": "q1"}, all_there=False)
    assert Deployment.read(files).topics == {"mutation-requests": "r1", "mutation-decisions": "d1", **QUOTAS}
