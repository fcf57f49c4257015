"""What a storage root belongs to, where users have topics of their own."""

import pytest

from jobs.storage.deployment import Deployment
from quota.errors import MutationQuotaError
from quota.settings.loading import load_settings

QUOTAS = {"mutation-quotas": "q1"}
ALICE, BOB = {"mutation-requests.alice": "a1"}, {"mutation-requests.bob": "b1"}


def by_topic(*more):
    return load_settings(["topics.identity=topic", *more], environment={}, with_default_file=False)


BY_PAYLOAD = load_settings([], environment={}, with_default_file=False)


def test_topics_of_users_join_as_they_come():
    claim = Deployment().with_all_topics(QUOTAS, by_topic())
    claim = claim.with_topics(ALICE, by_topic()).with_topics(BOB, by_topic())
    assert claim == Deployment(QUOTAS | ALICE | BOB)


def test_a_topic_that_was_made_anew_is_noticed():
    with pytest.raises(MutationQuotaError, match=r"alice is not the one .* \(its id was a1, now it is a2\)"):
        Deployment(ALICE).with_topics({"mutation-requests.alice": "a2"}, by_topic())


def test_a_topic_that_is_gone_is_told_and_may_be_retired_but_not_come_again():
    claim = Deployment(QUOTAS | ALICE | BOB)
    with pytest.raises(MutationQuotaError, match=r"topic mutation-requests.bob is gone.*topics.retired_users"):
        claim.with_all_topics(ALICE, by_topic())
    retired = claim.with_all_topics(ALICE, by_topic("topics.retired_users=bob"))
    assert retired.with_all_topics(ALICE, by_topic()) == retired  # the setting was for one start
    with pytest.raises(MutationQuotaError, match="bob is not the one"):
        retired.with_all_topics({"mutation-requests.bob": "b2"}, by_topic())


def test_only_a_topic_that_is_gone_is_retired():
    deployment = Deployment(QUOTAS | ALICE | BOB)
    assert deployment.with_all_topics(ALICE | BOB, by_topic("topics.retired_users=bob,eve")).retired == []


def test_who_tells_the_user_stays_the_same():
    with pytest.raises(MutationQuotaError, match="another topics"):
        Deployment({"mutation-requests": "r1"}).with_topics(ALICE, by_topic())
    with pytest.raises(MutationQuotaError, match="another topics"):
        Deployment(ALICE).with_topics({"mutation-requests": "r1"}, BY_PAYLOAD)


def test_other_topics_may_have_any_names():
    names = {"mutation-requests": "r1", "mutation-requests.decisions": "d1"}
    settings = load_settings(["topics.decisions=mutation-requests.decisions"], environment={}, with_default_file=False)
    claim = Deployment().with_topics(names, settings)
    assert claim.with_topics({"mutation-requests": "r1"}, settings) == claim
