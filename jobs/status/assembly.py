"""The state of a deployment and its problems, from the facts about its parts.

The parts are read concurrently, so that one that does not respond does not delay the others.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import quota
from jobs.query_names import AUDIT, ENFORCE
from jobs.status.facts import (
    ClusterFacts,
    QuotaLogFacts,
    StorageFacts,
    read_cluster_facts,
    read_endpoint,
    read_quota_facts,
    read_storage,
)
from jobs.status.rows import query_problems, query_rows, topic_id_problems, topic_problems, topic_rows
from quota.errors import MutationQuotaError
from quota.kafka.timing import Deadline, now_ms
from quota.settings import Settings
from quota.text import format_time
from schemas.buckets import STATE_VERSION
from schemas.documents.status import CallbackStatus, EndpointStatus, KafkaStatus, ProgramStatus, Status, StorageStatus

T = TypeVar("T")

_METADATA_MS = 2 * 86_400_000
"""The cluster's metadata are old if they were published so long ago; unchanged ones are published every day."""

_UPKEEP_MS = 2 * 86_400_000
"""The daily upkeep is late if a table was written so long after the last one. Without new rows there is none."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about the parts of a deployment; an error for a part that cannot be reached."""

    at: int
    """The time of the queries [epoch ms]."""
    cluster: ClusterFacts | None
    cluster_error: str | None
    storage: StorageFacts | None
    storage_error: str | None
    endpoints: Sequence[EndpointStatus] = ()
    quotas: QuotaLogFacts | None = None
    """None if the quota log cannot be read."""


def read_status(settings: Settings, endpoints: Sequence[str], seconds: float) -> Status:
    """Return the state of a deployment; a part that has not responded after `seconds` counts as unreachable."""
    at, deadline = now_ms(), Deadline(seconds)
    cluster = _Part(f"Kafka at {settings.kafka.bootstrap_servers}", lambda: read_cluster_facts(settings))
    storage = _Part(f"the storage root {settings.storage.root}", lambda: read_storage(settings))
    probes = {address: _Part(address, partial(read_endpoint, address)) for address in endpoints}
    layout, error = cluster.result(deadline, seconds)
    log = None
    if layout is not None and settings.topics.quotas in layout.layout.topics:
        log = _Part("the quota log", lambda: read_quota_facts(settings))
    parts = layout, error, *storage.result(deadline, seconds)
    probed = []
    for address, probe in probes.items():
        answer, error = probe.result(deadline, seconds)
        probed.append(answer or EndpointStatus(address, error=error))
    quotas = log.result(deadline, seconds)[0] if log else None if layout is None else QuotaLogFacts()
    return assemble(settings, Facts(at, *parts, probed, quotas))


def assemble(settings: Settings, facts: Facts) -> Status:
    """Return the state of a deployment, with its problems."""
    cluster, storage = facts.cluster, facts.storage
    topics = topic_rows(settings, cluster)
    queries = query_rows(settings, facts.at, cluster, storage, facts.endpoints)
    problems = list(_unreachable(facts))
    if cluster is not None:
        problems += cluster.errors
        problems += topic_problems(settings, cluster, topics)
    if cluster is not None and storage is not None:
        problems += topic_id_problems(settings, cluster, storage.deployment)
    if storage is not None:
        problems += query_problems(settings, queries, storage)
        problems += _table_problems(storage)
    if facts.quotas is not None and facts.quotas.callback is not None:
        problems += _callback_problems(facts.quotas.callback, facts.at)
    return Status(
        at=facts.at,
        ok=not problems,
        problems=[" ".join(problem.split()) for problem in problems],
        program=ProgramStatus(str(quota.__version__), STATE_VERSION),
        kafka=KafkaStatus(
            settings.kafka.bootstrap_servers,
            facts.cluster_error,
            cluster.layout.cluster_id if cluster else None,
            list(cluster.layout.brokers) if cluster else None,
        ),
        storage=StorageStatus(
            settings.storage.root,
            facts.storage_error,
            storage.deployment.checkpoints.get(ENFORCE) if storage else None,
            len(storage.deployment.topics) if storage else None,
            storage.deployment.retired if storage else None,
        ),
        topics=topics,
        queries=queries,
        tables=list(storage.tables.values()) if storage else [],
        endpoints=list(facts.endpoints),
        scheduled=None if facts.quotas is None else list(facts.quotas.scheduled),
        callback=facts.quotas.callback if facts.quotas else None,
    )


def _unreachable(facts: Facts) -> Iterator[str]:
    if facts.cluster_error is not None:
        yield facts.cluster_error
    if facts.storage_error is not None:
        yield facts.storage_error
    for endpoint in facts.endpoints:
        where = f"metrics at {endpoint.address}"
        if endpoint.error is not None:
            yield f"{where}: {endpoint.error}: check that the job is running with this metrics.port"
        elif not endpoint.ready:
            yield f"{where}: the job is not ready: {endpoint.reason}"


def _callback_problems(callback: CallbackStatus, at: int) -> Iterator[str]:
    if callback.metadata_at is not None and at - callback.metadata_at > _METADATA_MS:
        yield (
            f"the callback {callback.class_name} has the cluster's metadata of {format_time(callback.metadata_at)}: "
            "run callback publish-metadata about every hour"
        )


def _table_problems(storage: StorageFacts) -> Iterator[str]:
    for table in storage.tables.values():
        if table.error is not None:
            yield f"table {table.name}: {table.error}"
        elif table.exists is False and storage.checkpoints[AUDIT].last_batch is not None:
            yield (
                f"table {table.name} is missing, and audit has run: restore it, or remove checkpoints/audit, so that "
                "audit writes all records again"
            )
        elif table.committed_at and table.maintained_at and table.committed_at - table.maintained_at > _UPKEEP_MS:
            yield (
                f"table {table.name} was last maintained on {format_time(table.maintained_at)}, although it is "
                f"written: see the warnings of audit, and run mutation-quota maintain {table.name}"
            )


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
