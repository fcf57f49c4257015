"""What a program saw of one request."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.evidence.gateway.sides import Side

CONNECT = "connect"
"""A step before the first one that is charged."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A request's outcome. Times are ms of one clock for all observations of a case."""

    case: str
    step: str
    seen: str
    """The outcome in words, without times, the same on both sides if the sides are alike."""
    sent: float
    received: float
    told_ms: int | None = None
    """The throttle time told; None if the program cannot see one."""
    detail: str = ""
    """More of the outcome, which is compared and not shown."""

    @property
    def waited_ms(self) -> float:
        """The time from sending to the answer."""
        return self.received - self.sent


def read_observations(side: Side, records: Sequence[dict]) -> list[Observation]:
    """Return the observations that a program wrote as JSON objects with an Observation's fields."""
    return [
        Observation(
            **{**each, "seen": side.plain(each["seen"]), "detail": side.plain(each.get("detail", ""))},
        )
        for each in records
    ]
