"""Recent changes of topics, which are newer than a broker's metadata, second by second."""

import pytest

from quota.kafka.target.recent_changes import RecentChanges


def noted(name="a", partitions=3, at=0.0):
    """Changes, of which one is known."""
    recent = RecentChanges()
    recent.record(name, partitions, at)
    return recent


def test_unchanged_topics_are_as_the_broker_reports_them():
    assert RecentChanges().correct({"a": 1, "b": 2}, ["a", "b"], 0.0) == {"a": 1, "b": 2}


def test_topics_that_are_not_requested_are_omitted():
    assert noted("c").correct({"a": 1, "b": 2}, ["b"], 0.0) == {"b": 2}


def test_a_missing_topic_is_omitted():
    assert RecentChanges().correct({}, ["a"], 0.0) == {}


def test_a_topic_just_created_exists_although_the_broker_does_not_know_it_yet():
    assert noted("a", 3).correct({}, ["a", "b"], 1.0) == {"a": 3}


def test_a_topic_just_deleted_is_missing_although_the_broker_still_lists_it():
    assert noted("a", None).correct({"a": 3, "b": 2}, ["a", "b"], 1.0) == {"b": 2}


def test_a_topic_just_grown_has_the_largest_known_number_of_partitions():
    """A broker may be behind, or know of a later growth by another client."""
    recent = noted("a", 6)
    assert recent.correct({"a": 4}, ["a"], 1.0) == {"a": 6}
    assert recent.correct({"a": 6}, ["a"], 1.0) == {"a": 6}
    assert recent.correct({"a": 8}, ["a"], 1.0) == {"a": 8}


@pytest.mark.parametrize(("partitions", "known"), [(3, {"a": 3}), (None, {})])
def test_after_five_seconds_the_broker_is_trusted(partitions, known):
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


def test_each_change_of_a_topic_is_remembered_for_five_seconds():
    """Recorded at 0 and at 4; b, recorded at 2, does not remove the second."""
    recent = noted("a", 3, at=0.0)
    recent.record("b", 1, 2.0)
    recent.record("a", 6, 4.0)
    recent.record("c", 1, 8.0)
    assert recent.correct({"a": 3}, ["a", "b"], 9.0) == {"a": 6}
    assert recent.correct({"a": 3}, ["a", "b"], 9.001) == {"a": 3}


def test_a_lookup_changes_neither_its_input_nor_the_remembered_changes():
    recent, counts = noted("a", 3), {"a": 1}
    assert [recent.correct(counts, ["a", "a"], 1.0) for _ in range(2)] == [{"a": 3}, {"a": 3}]
    assert counts == {"a": 1}


def test_stale_changes_are_forgotten():
    """A topic a second for an hour, and one that grows all the time: six topics are of the last five seconds."""
    recent = RecentChanges()
    for second in range(3600):
        recent.record("growing", second, float(second))
        recent.record(f"topic-{second}", 1, float(second))
    assert len(recent._changes) == 1 + 6  # noqa: SLF001 nothing else shows what is remembered


def test_all_stale_changes_are_forgotten_at_once():
    recent = RecentChanges()
    for number in range(100):
        recent.record(f"topic-{number}", 1, 0.0)
    recent.record("late", 1, 5.001)
    assert list(recent._changes) == ["late"]  # noqa: SLF001 nothing else shows what is remembered
