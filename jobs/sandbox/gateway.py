"""The embedded gateway: on a thread of this process, in front of the embedded broker."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jobs.background import background
from jobs.metrics.endpoint import MetricsEndpoint
from jobs.sandbox.broker import HOST, free_port, is_listening
from jobs.services.gateway import serve_gateway
from quota.errors import ClusterError, MutationQuotaError
from quota.kafka.timing import Deadline
from quota.settings import Settings
from quota.settings.gateway import GatewaySettings

_START_SECONDS = 30.0


@contextmanager
def embedded_gateway(settings: Settings) -> Iterator[tuple[str, Callable[[], None]]]:
    """Run a gateway inside the block, on `gateway.first_port` or, if that is in use, on any free port.

    Args:
        settings: the settings of a cluster whose only broker is on this machine.

    Yields:
        The gateway's address, and a function that raises if the gateway has failed.

    Raises:
        MutationQuotaError: the gateway cannot be started.
    """
    first = settings.gateway.first_port
    port = free_port() if is_listening(first) else first
    settings = settings.model_copy(update={"gateway": GatewaySettings(first_port=port)})
    failures: list[MutationQuotaError] = []

    def serve(stop: threading.Event) -> None:
        try:
            serve_gateway(settings, stop, MetricsEndpoint(settings.metrics, once=True))
        except MutationQuotaError as error:
            failures.append(error)

    def check() -> None:
        if failures:
            raise failures[0]

    with background(serve, "gateway"):
        deadline = Deadline(_START_SECONDS)
        while not is_listening(port):
            check()
            if deadline.has_passed:
                raise ClusterError(f"the gateway does not listen after {_START_SECONDS:.0f} s")
            time.sleep(0.05)
        yield f"{HOST}:{port}", check
