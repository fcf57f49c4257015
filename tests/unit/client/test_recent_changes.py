"""What is known of topics better than a broker tells it, second by second."""

import pytest

from quota.client.recent_changes import RecentChanges


def noted(name="a", partitions=3, at=0.0):
    """Changes, of which one is known."""
    recent = RecentChanges()
    recent.record(name, partitions, at)
    return recent


def test_what_was_not_changed_is_as_the_broker_tells():
    assert RecentChanges().correct({"a": 1, "b": 2}, ["a", "b"], 0.0) == {"a": 1, "b": 2}


def test_what_nobody_asks_for_is_left_out():
    assert noted("c").correct({"a": 1, "b": 2}, ["b"], 0.0) == {"b": 2}


def test_a_topic_that_is_not_there_is_left_out():
    assert RecentChanges().correct({}, ["a"], 0.0) == {}


def test_a_topic_just_created_is_there_although_the_broker_does_not_know_it():
    assert noted("a", 3).correct({}, ["a", "b"], 1.0) == {"a": 3}


def test_a_topic_just_deleted_is_gone_although_the_broker_still_tells_of_it():
    assert noted("a", None).correct({"a": 3, "b": 2}, ["a", "b"], 1.0) == {"b": 2}


def test_a_topic_just_grown_has_the_most_partitions_that_are_known_of():
    """A broker may be behind, or know of someone who made it grow once more."""
    recent = noted("a", 6)
    assert recent.correct({"a": 4}, ["a"], 1.0) == {"a": 6}
    assert recent.correct({"a": 6}, ["a"], 1.0) == {"a": 6}
    assert recent.correct({"a": 8}, ["a"], 1.0) == {"a": 8}


@pytest.mark.parametrize(("partitions", "known"), [(3, {"a": 3}), (None, {})])
def test_after_five_seconds_the_broker_knows_best(partitions, known):
    recent = noted("a", partitions, at=100.0)
    assert recent.correct({"a": 1}, ["a"], 105.0) == known
    assert recent.correct({"a": 1}, ["a"], 105.001) == {"a": 1}
    assert recent.correct({}, ["a"], 105.001) == {}


def test_the_latest_change_counts():
    recent = noted("a", 3, at=0.0)
    recent.record("a", None, 1.0)
    assert recent.correct({"a": 3}, ["a"], 2.0) == {}
    recent.record("a", 5, 2.0)
    assert recent.correct({}, ["a"], 3.0) == {"a": 5}


def test_a_change_of_the_same_topic_is_known_for_five_seconds_of_its_own():
    """Noted at 0 and at 4; b, noted at 2, does not make it forget the second."""
    recent = noted("a", 3, at=0.0)
    recent.record("b", 1, 2.0)
    recent.record("a", 6, 4.0)
    recent.record("c", 1, 8.0)
    assert recent.correct({"a": 3}, ["a", "b"], 9.0) == {"a": 6}
    assert recent.correct({"a": 3}, ["a", "b"], 9.001) == {"a": 3}


def test_asking_changes_neither_what_was_told_nor_what_is_known():
    recent, told = noted("a", 3), {"a": 1}
    assert [recent.correct(told, ["a", "a"], 1.0) for _ in range(2)] == [{"a": 3}, {"a": 3}]
    assert told == {"a": 1}


def test_what_is_stale_is_forgotten():
    """A topic a second for an hour, and one that grows all the time: six topics are of the last five seconds."""
    recent = RecentChanges()
    for second in range(3600):
        recent.record("growing", second, float(second))
        recent.record(f"topic-{second}", 1, float(second))
    assert len(recent._changes) == 1 + 6  # noqa: SLF001 nothing else shows what is remembered


def test_all_that_is_stale_is_forgotten_at_once():
    recent = RecentChanges()
    for number in range(100):
        recent.record(f"topic-{number}", 1, 0.0)
    recent.record("late", 1, 5.001)
    assert list(recent._changes) == ["late"]  # noqa: SLF001 nothing else shows what is remembered
