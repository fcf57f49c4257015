"""The mutations that a decision counts; ADMITTED topics have no error, refused ones 89."""

import msgspec

from jobs.metrics.counts import MutationCounts
from quota.records.decision import Outcome, Repeat, Shadow
from tests.support.factories import decided


def test_topics_and_their_partitions_are_summed_up():
    """55 at first: 60 and 7 leave -5 after the first, so the second is refused."""
    assert MutationCounts.of(decided(60, 7)) == MutationCounts(1, 1, 60, 7, charged=60)


def test_a_validate_only_request_counts_no_mutations():
    assert MutationCounts.of(decided(60, 7, validate_only=True)) == MutationCounts()


def test_a_repeat_does_not_count_again():
    decision = msgspec.structs.replace(decided(5, 7, 9), repeats=Repeat("requests-0-1", topics=2))
    assert MutationCounts.of(decision) == MutationCounts(1, 0, 9, 0, charged=9)


def test_a_quota_in_shadow_admits_everything_and_charges_what_it_would_have_admitted():
    shadow = Shadow(Outcome.PARTIAL, [0, 89, 89], 2400, 2400)
    decision = msgspec.structs.replace(decided(5, 7, 9), shadow=shadow)
    assert MutationCounts.of(decision) == MutationCounts(3, 0, 21, 0, charged=5, shadow_refused=2)


def test_without_a_quota_nothing_is_charged():
    assert MutationCounts.of(decided(60, 7, rate=None)) == MutationCounts(2, 0, 67, 0, charged=0)
