"""The answers of a service to probes."""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

HEALTH_PATH: Final = "/healthz"
"""Where a service says whether it goes on. If not, only a new start helps."""

READINESS_PATH: Final = "/readyz"
"""Where a service says whether it does its work."""


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
    """Whether a service goes on, and whether it does its work."""

    def poll(self) -> None:  # noqa: B027 most services keep their counts themselves
        """Look at the service; called about once a second on a thread of its own, so it may wait."""

    @abstractmethod
    def live(self) -> Answer:
        """Return whether the service goes on; this never waits."""

    @abstractmethod
    def ready(self) -> Answer:
        """Return whether the service does its work; this never waits."""


STARTING: Final = "it is starting"
STOPPING: Final = "it is stopping"
