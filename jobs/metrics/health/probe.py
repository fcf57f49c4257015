"""The answers of a service to probes."""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

HEALTH_PATH: Final = "/healthz"
"""The path of the liveness probe. A service that is not live has to be restarted."""

READINESS_PATH: Final = "/readyz"
"""The path of the readiness probe."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a probe, with its reason in one line."""

    ok: bool
    reason: str

    @property
    def status(self) -> int:
        """The HTTP status code: 200 or 503."""
        return 200 if self.ok else 503

    def body(self, service: str) -> bytes:
        """Return the answer of a service as a line of JSON."""
        reason = " ".join(self.reason.split())
        return f"{json.dumps({'service': service, 'ok': self.ok, 'reason': reason}, ensure_ascii=False)}\n".encode()


class Health(ABC):
    """The liveness and readiness of a service."""

    @abstractmethod
    def live(self) -> Answer:
        """Return whether the service makes progress; never waits."""

    @abstractmethod
    def ready(self) -> Answer:
        """Return whether the service can do its work; never waits."""


def unless_stalled(silence: float, limit_seconds: float, stalled: str, going: str) -> Answer:
    """Return whether a service makes progress.

    Args:
        silence: the time since its last observed progress [s].
        limit_seconds: the longest time without progress [s].
        stalled: the reason if it makes none: "`stalled` for 700 s".
        going: the reason if it makes progress.
    """
    if silence <= limit_seconds:
        return Answer(True, going)
    limit = f"the limit is {limit_seconds:.0f} s (health.stalled_seconds)"
    return Answer(False, f"{stalled} for {silence:.0f} s; {limit}")


STARTING: Final = "it is starting"
STOPPING: Final = "it is stopping"
