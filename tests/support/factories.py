"""Requests, records, decisions and quotas, with a simple default for every part."""

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from quota.admission.decide import decide
from quota.algorithms.deduplication import AdmittedRequests
from quota.algorithms.token_bucket import Bucket, TokenBucket
from quota.callbacks.timeline import CallbackTimeline
from quota.records import codec
from quota.records.decision import Decision
from quota.records.entity import QuotaEntity, Tags
from quota.records.levels import Limit, Resolution, ResolvedRequest
from quota.records.quota_log import Quota, Window
from quota.records.record import BEGINNING, Record, Source
from quota.records.request import read_request
from quota.records.result import MutationResult
from quota.timeline.change import QuotaChange
from quota.timeline.timeline import QuotaTimeline

STRICT, PERMISSIVE = 6, 5
"""API versions of CREATE_TOPICS."""

KIP = TokenBucket(Window(num=100))
"""The bucket of KIP-599's worked example: S = 100, W = 1 s."""

START = 1_795_266_000_000
"""Beginning of the recorded requests, epoch ms."""


DECISION_RECORD = {
    "decision_id": "mutation-requests-1-7",
    "request_id": "r",
    "user": "alice",
    "client_id": "<none>",
    "operation": "CREATE_TOPICS",
    "validate_only": False,
    "mode": "STRICT",
    "user_tag": "alice",
    "client_tag": "",
    "more_tags": {"group": "g"},
    "callback": "a.B",
    "quota": 5.0,
    "burst": 55.0,
    "max_debt_ms": None,
    "quota_entity": {"user": "alice"},
    "exempt": False,
    "outcome": "ADMITTED",
    "topics": [{"name": "t", "partitions": 3, "error_code": 0, "error": "NONE", "error_message": None}],
    "controller_throttle_ms": 0,
    "request_throttle_ms": 0,
    "throttle_time_ms": 1000,
    "retry_at": 129_601_000,
    "shadow": {"outcome": "REJECTED", "error_codes": [89], "controller_throttle_ms": 9, "throttle_time_ms": 8},
    "tokens_before": 55.0,
    "tokens": 52.0,
    "timestamp": 129_600_000,
    "source": {"topic": "mutation-requests", "partition": 1, "offset": 7},
}
"""A decision with the values of its record, at noon of 1970-01-02."""


def request_json(*partitions: int, **fields: Any) -> bytes:
    """Return the bytes of a request with one topic for each number of partitions."""
    topics = [{"name": f"topic-{number}", "partitions": count} for number, count in enumerate(partitions)]
    request = {
        "request_id": "r",
        "user": "alice",
        "operation": "CREATE_TOPICS",
        "api_version": STRICT,
        "topics": topics,
    }
    return json.dumps(request | fields).encode()


def request_at(timestamp: int, *partitions: int, **fields: Any) -> bytes:
    """Return the bytes of a request of a file, with its time (epoch ms)."""
    return request_json(*partitions, timestamp=timestamp, **fields)


def request_after(ms: int, *partitions: int, **fields: Any) -> bytes:
    """Return the bytes of a request of a file, at so many ms after `START`."""
    return request_at(START + ms, *partitions, **fields)


def record(value: bytes | None, offset: int = 0, timestamp: int = 0, partition: int = 0) -> Record:
    """Return a record of the request topic."""
    return Record(Source("mutation-requests", partition, offset), timestamp, value)


def resolved(
    *partitions: int, at: int = 0, rate: float | None = 5.0, since: int = BEGINNING, **fields: Any
) -> ResolvedRequest:
    """Return a request resolved to a quota of `rate` with its options; None means no quota."""

    def pop(*names: str) -> dict[str, Any]:
        return {name: fields.pop(name) for name in names if name in fields}

    where = pop("offset", "partition")
    options = pop("burst", "max_debt_ms", "max_request_mutations")
    details = pop("shadow", "reset_at", "exempt")
    value = request_json(*partitions, **fields)
    resolution = Resolution(Tags("", ""), None, None, **details)
    if rate is not None:
        limit = Limit(Quota(rate, **options), since)
        resolution = Resolution(Tags("alice", ""), limit, QuotaEntity("alice"), **details)
    return ResolvedRequest(record(value, timestamp=at, **where), read_request(value), resolution)


read_result = partial(codec.decode, decoder=msgspec.json.Decoder(MutationResult))
"""Parses a record of the results topic, of which the applier itself reads only the ids."""


def result(request_id: str = "r", **fields: Any) -> MutationResult:
    """Return an applier's result for a topic `t` of a request of alice's."""
    read = {"request_id": request_id, "decision_id": "mutation-requests-0-7", "user": "alice", "client_id": "app"}
    read |= {"operation": "CREATE_TOPICS", "validate_only": False, "topics": [{"name": "t"}], "timestamp": 5}
    read |= {"source": {"topic": "mutation-decisions", "partition": 0, "offset": 8}}
    return replace(read_result(json.dumps(read).encode()), **fields)


def written(tokens: float, at: int, quota: Quota, *, partition: int = 0, **more: Any) -> Bucket:
    """Return a bucket as a request of a partition left it."""
    return Bucket(tokens, at, quota, clock=("mutation-requests", partition), **more)


def decided(
    *partitions: int, at: int = 0, state: float | None = None, rate: float | None = 5.0, **fields: Any
) -> Decision:
    """Return the decision on such a request, by a full bucket or by one with `state` tokens at that moment."""
    bucket = None if state is None or rate is None else Bucket(state, at, Quota(rate))
    _, decision = decide(bucket, resolved(*partitions, at=at, rate=rate, **fields), TokenBucket(Window()))
    return decision


def decide_all(*requests: ResolvedRequest, bucket: Any = None, algorithm: Any = KIP):
    """Decide requests of a bucket in order; return the bucket after them and their decisions. `bucket` is unchanged."""
    if isinstance(bucket, Bucket):
        bucket = replace(bucket, admitted_requests=AdmittedRequests(*bucket.admitted_requests.stored()))
    decisions = []
    for request in requests:
        bucket, decision = decide(bucket, request, algorithm)
        decisions.append(decision)
    return bucket, decisions


def timeline(*changes: tuple[QuotaEntity, Quota | float | None, int]) -> QuotaTimeline:
    """Return a timeline of changes: entity, quota or rate, moment (epoch ms)."""
    quotas = QuotaTimeline()
    for entity, quota, moment in changes:
        quotas.add(QuotaChange(entity, Quota(quota) if isinstance(quota, float | int) else quota, moment))
    return quotas


@dataclass(frozen=True, slots=True)
class FixedQuotas:
    """A quota source whose quotas are all known from the beginning."""

    quotas: CallbackTimeline

    def read_until(self, until: int) -> CallbackTimeline:  # noqa: ARG002 all are known at any time
        """Return the quotas."""
        return self.quotas
