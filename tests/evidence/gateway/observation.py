"""A program's observation of one request."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from quota.errors import MutationQuotaError
from tests.evidence.gateway.sides import Side

CONNECT = "connect"
"""Name of a step before the first one that is charged."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A request's outcome. Times are ms of one clock for all observations of a case."""

    case: str
    step: str
    seen: str
    """The outcome in words, without times and names of the side, so that equal outcomes have equal texts."""
    sent: float
    received: float
    throttle_ms: int | None = None
    """The throttle time; None if the program cannot see it."""
    detail: str = ""
    """Further parts of the outcome, which are compared but not shown."""

    @property
    def waited_ms(self) -> float:
        """The time from sending to the answer."""
        return self.received - self.sent


def observed(side: Side, name: str, command: Sequence[str | Path], seconds: float) -> list[Observation]:
    """Run a program that writes its observations as lines of JSON, objects with an Observation's fields."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    if done.returncode:
        raise MutationQuotaError(f"{name} ended with {done.returncode}: {done.stderr[-2000:]}")
    return [
        Observation(
            **{**each, "seen": side.plain(each["seen"]), "detail": side.plain(each.get("detail", ""))},
        )
        for each in map(json.loads, done.stdout.splitlines())
    ]
