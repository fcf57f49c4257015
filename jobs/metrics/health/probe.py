"""The answers of a service to probes."""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

HEALTH_PATH: Final = "/healthz"
"""The path of the liveness probe. A service that is not live has to be restarted."""

READINESS_PATH: Final = "/readyz"


STALLED_SECONDS: Final = 600.0
"""The time without progress after which a service is not healthy [s]. It is longer than what delays a healthy one: the
upkeep of the tables, and a request to a cluster that does not answer."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
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
    def live(self) -> ProbeResult:
        """Return whether the service makes progress; never waits."""

    @abstractmethod
    def ready(self) -> ProbeResult:
        """Return whether the service can do its work; never waits."""


STARTING: Final = "it is starting"
STOPPING: Final = "it is stopping"
