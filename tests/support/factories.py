"""Requests and records for tests: every part has a plain default."""

import json
from typing import Any

from quota.admission.decide import decide
from quota.algorithms.bucket import Bucket, Window
from quota.algorithms.token_bucket import TokenBucket
from quota.records.decision import Decision
from quota.records.entity import QuotaEntity, Tags
from quota.records.fields import SINCE_EVER
from quota.records.quota import Limit, Quota
from quota.records.record import Record, Source
from quota.records.request import read_request
from quota.timeline.change import QuotaChange
from quota.timeline.resolution import Resolution, ResolvedRequest
from quota.timeline.timeline import QuotaTimeline

STRICT, PERMISSIVE = 6, 5
"""API versions of CREATE_TOPICS."""


def request_json(*partitions: int, **fields: Any) -> bytes:
    """The bytes of a request for one topic for each number of partitions."""
    topics = [{"name": f"topic-{number}", "partitions": count} for number, count in enumerate(partitions)]
    request = {
        "request_id": "r",
        "user": "alice",
        "operation": "CREATE_TOPICS",
        "api_version": STRICT,
        "topics": topics,
    }
    return json.dumps(request | fields).encode()


def record(value: bytes | None, offset: int = 0, timestamp: int = 0, partition: int = 0) -> Record:
    """A record of the request topic."""
    return Record(Source("mutation-requests", partition, offset), timestamp, value)


def resolved(
    *partitions: int, at: int = 0, rate: float | None = 5.0, since: int = SINCE_EVER, **fields: Any
) -> ResolvedRequest:
    """A request that is judged by a quota of `rate` with its options, or by none."""

    def taken(*names: str) -> dict[str, Any]:
        return {name: fields.pop(name) for name in names if name in fields}

    where = taken("offset", "partition")
    options = taken("burst", "max_debt_ms")
    judged = taken("shadow", "reset_at", "exempt")
    value = request_json(*partitions, **fields)
    resolution = Resolution(Tags("", ""), None, None, **judged)
    if rate is not None:
        limit = Limit(Quota(rate, **options), since)
        resolution = Resolution(Tags("alice", ""), limit, QuotaEntity("alice"), **judged)
    return ResolvedRequest(record(value, timestamp=at, **where), read_request(value), resolution)


def decided(
    *partitions: int, at: int = 0, state: float | None = None, rate: float | None = 5.0, **fields: Any
) -> Decision:
    """The decision on such a request, by a bucket that is full, or that holds `state` at its moment."""
    bucket = None if state is None or rate is None else Bucket(state, at, rate)
    _, (decision,) = decide(bucket, [resolved(*partitions, at=at, rate=rate, **fields)], TokenBucket(Window()))
    return decision


def timeline(*changes: tuple[QuotaEntity, float | None, int]) -> QuotaTimeline:
    """A timeline of changes: entity, rate, moment."""
    quotas = QuotaTimeline()
    for entity, rate, moment in changes:
        quotas.add(QuotaChange(entity, None if rate is None else Quota(rate), moment))
    return quotas
