"""A figure and its limit: alternating runs of both, and the ratio of their medians."""

import math
import statistics
from dataclasses import asdict, dataclass
from typing import Any

from quota.errors import MutationQuotaError


class SideError(MutationQuotaError):
    """A side that was to be measured failed, so there is no figure."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on a ratio."""

    bound: float
    at_least: bool = False

    def is_met(self, ratio: float) -> bool:
        """Return whether a ratio is within the bound."""
        return ratio >= self.bound if self.at_least else ratio <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement.

    `runs` and `limit_runs` are in the order in which they were taken, alternating; the medians are what is quoted.
    """

    section: str
    what: str
    unit: str
    runs: tuple[float, ...]
    limit: str = ""
    """Name of the limit; empty if there is none."""
    limit_runs: tuple[float, ...] = ()
    goal: Goal | None = None

    def __post_init__(self) -> None:
        """Reject a figure of which a side has not been measured."""
        sides = {self.what: self.runs, **({self.limit: self.limit_runs} if self.limit else {})}
        for name, runs in sides.items():
            if not runs or not all(math.isfinite(run) for run in runs):
                raise ValueError(f"{self.section}: {name} has no figures: {runs}")

    @property
    def median(self) -> float:
        """Median of the runs."""
        return statistics.median(self.runs)

    @property
    def limit_median(self) -> float | None:
        """Median of the limit's runs."""
        return statistics.median(self.limit_runs) if self.limit_runs else None

    @property
    def ratio(self) -> float | None:
        """Ratio of the medians."""
        limit = self.limit_median
        return self.median / limit if limit else None

    @property
    def noise(self) -> float:
        """Largest run divided by the smallest, of the noisier side."""
        sides = [side for side in (self.runs, self.limit_runs) if side and min(side) > 0]
        return max((max(side) / min(side) for side in sides), default=1.0)

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None if there is none."""
        return None if self.goal is None or self.ratio is None else self.goal.is_met(self.ratio)

    def as_json(self) -> dict[str, Any]:
        """Return the figure for its page and for other programs, without the section."""
        has_noise = max(len(self.runs), len(self.limit_runs)) > 1
        counted = {"median": self.median, "limit_median": self.limit_median, "ratio": self.ratio}
        counted |= {"noise": self.noise if has_noise else None, "is_met": self.is_met}
        texts = {"limit": self.limit or None, "goal": None if self.goal is None else str(self.goal)}
        return {name: value for name, value in (asdict(self) | texts | counted).items() if name != "section"}
