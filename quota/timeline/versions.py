"""Versions: what is in force from each change on, with the changes of parts applied in the order of their effect."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from typing import Generic, TypeVar

from quota.timeline.change import CallbackChange, QuotaChange

C = TypeVar("C", QuotaChange, CallbackChange)


class Versions(Generic[C]):
    """The changes of one quota or of the callback, in the order of their effect, each with the whole that results.

    A change may name only some configs, so it depends on all that take effect before it, even those read later.
    """

    __slots__ = ("_apply", "_changes", "_has_base", "all")

    def __init__(self, apply: Callable[[C, C | None], C]) -> None:
        """`apply` returns a change with the whole that results after the previous one."""
        self.all: list[C] = []
        """The changes, each with the whole that results."""
        self._changes: list[C] = []
        self._apply: Callable[[C, C | None], C] = apply
        self._has_base = False

    def add(self, change: C) -> None:
        """Add a change; the later of two at the same time wins.

        The first immediate one is taken as a whole: compaction may have removed those before it, and leaves a
        record that is complete. It never leaves a scheduled change without the immediate one that it alters.
        """
        if not change.scheduled:
            if not self._has_base and change.altered is not None:
                change = replace(change, altered=None)
            self._has_base = True
        position = _count_until(self._changes, change.moment)
        self._changes.insert(position, change)
        self._apply_from(position)

    def cancel(self, moment: int) -> None:
        """Remove the changes that were scheduled for `moment` (epoch ms)."""
        self._changes = [change for change in self._changes if change.moment != moment]
        self._apply_from(_count_until(self._changes, moment))

    def count(self, at: int) -> int:
        """Return the number of changes that have taken effect as of `at` (epoch ms)."""
        return _count_until(self.all, at)

    def latest(self, at: int) -> C | None:
        """Return the latest change as of `at` (epoch ms)."""
        count = self.count(at)
        return self.all[count - 1] if count else None

    def scheduled(self, after: int) -> list[C]:
        """Return the changes that take effect later than `after` (epoch ms); of two at one time, the later one."""
        return list({change.moment: change for change in self.all[self.count(after) :]}.values())

    def _apply_from(self, position: int) -> None:
        del self.all[position:]
        for change in self._changes[position:]:
            self.all.append(self._apply(change, self.all[-1] if self.all else None))


def _count_until(changes: list[C], at: int) -> int:
    return bisect_right(changes, at, key=lambda change: change.moment)
