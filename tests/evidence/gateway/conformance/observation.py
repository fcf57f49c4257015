"""A program's observation of one request."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quota.errors import MutationQuotaError

CONNECT = "connect"
"""Name of a step before the first one that is charged."""

_SECONDS = 300


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


def observed(name: str, command: Sequence[str | Path]) -> list[dict[str, Any]]:
    """Run a program that writes its observations as lines of JSON.

    Raises:
        MutationQuotaError: The program failed.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode:
        raise MutationQuotaError(f"{name} ended with {done.returncode}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]
