"""The embedded gateway: runs on a thread of this process, in front of the embedded broker."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jobs.background import background, log_progress
from jobs.metrics.health.endpoint import ServiceEndpoint
from jobs.sandbox.broker import HOST, free_port, is_listening
from jobs.services.gateway import serve_gateway
from quota.errors import ClusterError, MutationQuotaError
from quota.kafka.timing import Deadline
from quota.settings import Settings

_START_SECONDS = 30.0


@contextmanager
def embedded_gateway(settings: Settings) -> Iterator[tuple[str, Callable[[], None]]]:
    """Run a gateway inside the block, on `gateway.first_port` or, if that is in use, on any free port.

    Yields its address, and a function that checks that it still runs.
    """
    first = settings.gateway.first_port
    port = free_port() if is_listening(first) else first
    own = {"first_port": port, "address": HOST, "advertised_host": "", "advertised_by": "gateway", "listeners": []}
    settings = settings.model_copy(update={"gateway": settings.gateway.model_copy(update=own)})
    failures: list[MutationQuotaError] = []

    def serve(stop: threading.Event) -> None:
        for module in (serve_gateway.__module__, log_progress.__module__):  # its counts would disturb the view
            logging.getLogger(module).setLevel(logging.WARNING)
        try:
            asyncio.run(serve_gateway(settings, stop, ServiceEndpoint(settings.metrics, "gateway", once=True)))
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
                raise ClusterError(f"the gateway is not listening after {_START_SECONDS:.0f} s")
            time.sleep(0.05)
        yield f"{HOST}:{port}", check
