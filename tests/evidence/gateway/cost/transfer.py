"""A large produce and a large fetch: one request, one answer."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from confluent_kafka import Producer

from jobs.sandbox.broker import HOST
from quota.errors import MutationQuotaError
from quota.wire.api_keys import ApiKey
from tests.evidence.gateway.cost.routes import Route, Row, take_turns
from tests.evidence.gateway.cost.size import Size
from tests.evidence.gateway.ground import Ground
from tests.evidence.gateway.requests import Request
from tests.support.clients import QUIET

BATCH_BYTES = 1_000_000
"""Size of the batch of each partition; 90 of them are below Kafka's limit of 100 MB for a request."""

_PRODUCE_VERSION, _FETCH_VERSION = 9, 12
_TIMEOUT_MS = 60_000
_SAMPLE = "transferred-sample"


def transfers(routes: Sequence[Route], topic: str, produce: Request, size: Size) -> Iterator[Row]:
    """Measure the produce and the fetch over each route in turns; `topic` has a partition for each batch.

    Raises:
        MutationQuotaError: Less than all batches arrived.
    """
    fetch = Request("fetch", ApiKey.FETCH, _FETCH_VERSION, _fetch(topic, size.batches))
    megabytes = size.batches * BATCH_BYTES / 1e6
    for request in (produce, fetch):
        for route, turns in take_turns(routes, request, size.transfers):
            if min(turn.moved for turn in turns) < size.batches * BATCH_BYTES:
                raise MutationQuotaError(f"{route.name}: a {request.name} did not move {megabytes:.0f} MB")
            yield {
                "transfer": request.name,
                "megabytes": megabytes,
                "route": route.name,
                "megabytes_per_second": megabytes / median(turn.took for turn in turns),
                "cpu_ms_per_megabyte": median(turn.cpu for turn in turns) / megabytes * 1e3 if route.meter else None,
                "memory_growth_mb": max(turn.grown for turn in turns) / 1e6 if route.meter else None,
            }


def _batch(where: Ground) -> bytes:
    """Return a batch of one record of `BATCH_BYTES` of zeros, as a client writes it."""
    producer = Producer({**QUIET, "bootstrap.servers": f"{HOST}:{where.port}", "message.max.bytes": 2 * BATCH_BYTES})
    producer.produce(_SAMPLE, bytes(BATCH_BYTES), partition=0)
    producer.flush()
    return where.stored_records(_SAMPLE, 2 * BATCH_BYTES)


def produce_request(topic: str, batches: int, where: Ground) -> Request:
    """Return a Produce request with a batch of `BATCH_BYTES` for each of a topic's partitions."""
    batch = _batch(where)
    partitions = [{"index": number, "records": batch} for number in range(batches)]
    topics = [{"name": topic, "partitionData": partitions}]
    message = {"transactionalId": None, "acks": 1, "timeoutMs": _TIMEOUT_MS, "topicData": topics}
    return Request("produce", ApiKey.PRODUCE, _PRODUCE_VERSION, message)


def _fetch(topic: str, batches: int) -> dict[str, Any]:
    partitions = [
        {"partition": number, "fetchOffset": 0, "partitionMaxBytes": BATCH_BYTES + 100} for number in range(batches)
    ]
    topics = [{"topic": topic, "partitions": partitions}]
    return {"maxWaitMs": 0, "minBytes": 0, "maxBytes": 2 * batches * BATCH_BYTES, "topics": topics}
