"""Deadlines, intervals and pauses."""

import pytest

from quota.kafka import timing
from quota.kafka.timing import Backoff, Deadline, Every


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests advance."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    fixed = Clock()
    monkeypatch.setattr(timing, "time", fixed)
    return fixed


def test_a_deadline_passes_at_its_time(clock):
    deadline = Deadline(5)
    clock.now += 4.5
    assert (deadline.has_passed, deadline.left()) == (False, 0.5)
    clock.now += 0.5
    assert (deadline.has_passed, deadline.left(), deadline.left(at_least=0.1)) == (True, 0.0, 0.1)


@pytest.mark.parametrize("at_once", [True, False])
def test_an_interval_is_due_at_once_unless_it_is_told_to_wait_and_then_once_per_period(clock, at_once):
    every = Every(2, at_once=at_once)
    assert (every.is_due(), every.is_due()) == (at_once, False)
    clock.now += 1.9
    assert not every.is_due()
    clock.now += 0.1
    assert (every.is_due(), every.is_due()) == (True, False)


def test_pauses_grow_to_the_longest_one_and_no_two_programs_have_the_same():
    limits = [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    ones, others = Backoff(0.1, 1.0), Backoff(0.1, 1.0)
    pauses = [(ones.next(), others.next()) for _ in limits]
    assert all(limit / 2 <= pause <= limit for pair, limit in zip(pauses, limits, strict=True) for pause in pair)
    assert len({pause for pair in pauses for pause in pair}) == 12
