"""What a decision was asked for in earnest; ADMITTED topics have no error, refused ones 89."""

import msgspec

from jobs.metrics.counts import MutationCounts
from quota.records.decision import Outcome, Repeat, Shadow
from tests.support.factories import decided


def test_topics_and_their_partitions_are_added_up():
    """55 to begin with: 60 and 7 leave -5 after the first, so that the second is refused."""
    assert MutationCounts.of(decided(60, 7)) == MutationCounts(1, 1, 60, 7, charged=60)


def test_who_only_asks_if_it_could_be_done_asks_for_nothing():
    assert MutationCounts.of(decided(60, 7, validate_only=True)) == MutationCounts()


def test_what_was_admitted_before_does_not_count_again():
    decision = msgspec.structs.replace(decided(5, 7, 9), repeats=Repeat("requests-0-1", topics=2))
    assert MutationCounts.of(decision) == MutationCounts(1, 0, 9, 0, charged=9)


def test_a_quota_in_shadow_admits_all_and_charges_what_it_would_have_admitted():
    shadow = Shadow(Outcome.PARTIAL, [0, 89, 89], 2400, 2400)
    decision = msgspec.structs.replace(decided(5, 7, 9), shadow=shadow)
    assert MutationCounts.of(decision) == MutationCounts(3, 0, 21, 0, charged=5, shadow_refused=2)


def test_without_a_quota_nothing_is_charged():
    assert MutationCounts.of(decided(60, 7, rate=None)) == MutationCounts(2, 0, 67, 0, charged=0)
