"""Reads the parts of a deployment concurrently, so that a part that does not respond does not delay the others."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Generic, TypeVar

from jobs.status.assembly import Facts, assemble
from jobs.status.cluster_facts import read_cluster_facts
from jobs.status.endpoints import read_endpoint
from jobs.status.storage_facts import read_storage
from quota.errors import MutationQuotaError
from quota.kafka.timing import Deadline, now_ms
from quota.settings import Settings
from schemas.documents.status import EndpointStatus, Status

T = TypeVar("T")


class _Part(Generic[T]):
    """A part that is read on a separate thread, which does not delay the program's exit."""

    def __init__(self, name: str, read: Callable[[], T]) -> None:
        """Start to read the part; errors contain its name."""
        self._name = name
        self._read: Future[T] = Future()
        threading.Thread(target=self._run, args=(read,), daemon=True).start()

    def result(self, deadline: Deadline, seconds: float) -> tuple[T | None, str | None]:
        """Return the value, or the reason why it cannot be read; wait until a deadline, `seconds` after the start."""
        try:
            return self._read.result(deadline.left()), None
        except TimeoutError:
            return None, f"{self._name} does not respond within {seconds:g} s"
        except MutationQuotaError as error:
            return None, str(error)
        except Exception as error:  # noqa: BLE001 the other parts are still shown
            return None, f"{self._name}: unexpected {type(error).__name__}: {error}"

    def _run(self, read: Callable[[], T]) -> None:
        try:
            self._read.set_result(read())
        except Exception as error:  # noqa: BLE001 it is raised again where the result is asked for
            self._read.set_exception(error)


def read_status(settings: Settings, endpoints: Sequence[str], seconds: float) -> Status:
    """Return the state of a deployment; a part that has not responded after `seconds` counts as unreachable."""
    at, deadline = now_ms(), Deadline(seconds)
    cluster = _Part(f"Kafka at {settings.kafka.bootstrap_servers}", lambda: read_cluster_facts(settings))
    storage = _Part(f"the storage root {settings.storage.root}", lambda: read_storage(settings))
    probes = {address: _Part(address, partial(read_endpoint, address)) for address in endpoints}
    found = *cluster.result(deadline, seconds), *storage.result(deadline, seconds)
    probed = []
    for address, probe in probes.items():
        answer, error = probe.result(deadline, seconds)
        probed.append(answer or EndpointStatus(address, error=error))
    return assemble(settings, Facts(at, *found, probed))
