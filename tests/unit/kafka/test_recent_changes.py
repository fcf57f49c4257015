"""Recent changes of topics, which are newer than a broker's metadata."""

import pytest

from quota.kafka.target.recent_changes import RecentChanges

CREATED, DELETED = [("a", 3, 100.0)], [("a", None, 100.0)]


@pytest.mark.parametrize(
    ("changes", "reported", "now", "corrected"),
    [
        pytest.param([], {"a": 1, "c": 2}, 100.0, {"a": 1}, id="unchanged, as the broker reports them"),
        pytest.param([("c", 3, 100.0)], {"a": 1, "c": 2}, 100.0, {"a": 1}, id="not requested"),
        pytest.param(CREATED, {}, 101.0, {"a": 3}, id="created, and the broker does not know it yet"),
        pytest.param(DELETED, {"a": 3, "b": 2}, 101.0, {"b": 2}, id="deleted, and the broker still lists it"),
        pytest.param(CREATED, {"a": 8}, 101.0, {"a": 8}, id="grown again by another client"),
        pytest.param(CREATED, {"a": 1}, 105.0, {"a": 3}, id="five seconds ago"),
        pytest.param(CREATED, {"a": 1}, 105.001, {"a": 1}, id="longer ago, the broker is trusted"),
        pytest.param(DELETED, {"a": 1}, 105.001, {"a": 1}, id="deleted longer ago"),
        pytest.param([*CREATED, ("a", None, 101.0)], {"a": 3}, 102.0, {}, id="created, then deleted"),
        pytest.param([*DELETED, ("a", 5, 101.0)], {}, 102.0, {"a": 5}, id="deleted, then created"),
    ],
)
def test_a_brokers_report_is_corrected_by_the_changes_of_the_last_five_seconds(changes, reported, now, corrected):
    """A lookup, of the topics a and b, changes neither its input nor what is remembered."""
    recent, counts = RecentChanges(), dict(reported)
    for change in changes:
        recent.record(*change)
    assert [recent.correct(counts, ["a", "b", "a"], now) for _ in range(2)] == [corrected, corrected]
    assert counts == reported


def test_stale_changes_are_forgotten():
    """A topic a second for an hour, and one that grows all the time: six topics are of the last five seconds."""
    recent = RecentChanges()
    for second in range(3600):
        recent.record("growing", second, float(second))
        recent.record(f"topic-{second}", 1, float(second))
    assert len(recent._changes) == 1 + 6  # noqa: SLF001 nothing else shows what is remembered
    recent.record("late", 1, 3604.001)
    assert list(recent._changes) == ["late"]  # noqa: SLF001
