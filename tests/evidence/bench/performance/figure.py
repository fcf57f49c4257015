"""A figure beside its limit: runs of both, alternating, and what the ratio of their medians comes to."""

import statistics
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Goal:
    """What a ratio is to be."""

    bound: float
    at_least: bool = False

    def is_met(self, ratio: float) -> bool:
        """Whether a ratio is within."""
        return ratio >= self.bound if self.at_least else ratio <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured thing.

    `runs` and `limit_runs` are in the order in which they were taken, alternating; the medians are what is quoted.
    """

    section: str
    what: str
    unit: str
    runs: tuple[float, ...]
    limit: str = ""
    """What it is measured beside; empty where it stands alone."""
    limit_runs: tuple[float, ...] = ()
    goal: Goal | None = None
    at: float | None = None
    """Where it stands on the axis of its plot: requests a second, keys, buckets."""

    @property
    def median(self) -> float:
        """Of the runs."""
        return statistics.median(self.runs)

    @property
    def limit_median(self) -> float | None:
        """Of the runs of what it is measured beside."""
        return statistics.median(self.limit_runs) if self.limit_runs else None

    @property
    def ratio(self) -> float | None:
        """Of the medians."""
        limit = self.limit_median
        return self.median / limit if limit else None

    @property
    def noise(self) -> float:
        """How far apart the runs of either side are: the largest by the smallest."""
        sides = [side for side in (self.runs, self.limit_runs) if side and min(side) > 0]
        return max((max(side) / min(side) for side in sides), default=1.0)

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None where there is none."""
        return None if self.goal is None or self.ratio is None else self.goal.is_met(self.ratio)

    def as_json(self) -> dict[str, Any]:
        """All of it, for other programs."""
        counted = {"median": self.median, "limit_median": self.limit_median, "ratio": self.ratio, "noise": self.noise}
        goal = None if self.goal is None else str(self.goal)
        return asdict(self) | counted | {"goal": goal, "is_met": self.is_met}
