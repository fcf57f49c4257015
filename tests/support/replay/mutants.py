"""Mutants: deliberate defects in the job that the properties must notice.

A mutant has to be patched in where the stages run, and Spark runs them in its Python workers. Therefore functions of
this module, which the workers can import, replace the functions of the stages, and patch what those call.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import msgspec

from jobs.enforce.decide import _decide_bucket, answer_requests
from jobs.enforce.packing import encode_bucket, pack_request
from jobs.enforce.resolve import _resolve_batches
from quota.admission.resolve import resolve_quota
from quota.algorithms.deduplication import Deduplication
from quota.records.quota import Window

_LATER_MS = 5000
_FOR_EVER_MS = 2**62

_find, _add, _burst = Deduplication.find, Deduplication.add, Window.burst


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Introduce a fault into the stages inside the block, wherever they run."""
    with (
        patch("jobs.enforce.decide._decide_bucket", partial(_broken, name, _decide_bucket.__name__)),
        patch("jobs.enforce.resolve._resolve_batches", partial(_broken, name, _resolve_batches.__name__)),
    ):
        yield


def _broken(name: str, stage: str, *args: Any) -> Iterator[Any]:
    with patch(*MUTANTS[name]):
        yield from _STAGES[stage](*args)


_STAGES = {stage.__name__: stage for stage in (_decide_bucket, _resolve_batches)}


@dataclass(slots=True)
class _Forgetful:
    """A state that stores its first update only."""

    state: Any

    @property
    def exists(self) -> bool:
        return self.state.exists

    @property
    def get(self) -> Any:
        return self.state.get

    def update(self, value: Any) -> None:
        if not self.state.exists:
            self.state.update(value)


def _bucket_of_user(record: Any, resolved: Any) -> Any:
    row = pack_request(record, resolved)
    if row["bucket"].startswith('["'):
        row["bucket"] = f'{row["bucket"].rpartition(",")[0]},""]'
    return row


def _without_own_burst(window: Window, rate: float, _: float | None) -> float:
    return _burst(window, rate, None)


def _all_charged(tokens: float, _: float, topics: Any, __: Any, *, strict: bool) -> Any:
    admitted = [tokens >= 0 or not strict for _ in topics]
    return admitted, tokens - sum(topic.partitions for topic in topics)


def _find_of_any_age(rule: Deduplication, *args: Any) -> Any:
    return _find(replace(rule, window_ms=_FOR_EVER_MS), *args) if rule.window_ms else None


def _digest_without_costs(request: Any) -> bytes:
    names = [topic.name for topic in request.topics]
    return repr((request.user, request.client_id, request.request_id, request.operation, names)).encode()


def _add_with_refused(rule: Deduplication, admitted: Any, request: Any, entry: Any) -> Any:
    return _add(rule, admitted, request, msgspec.structs.replace(entry, topics=len(request.topics)))


def _sorted_by(*names: str) -> Callable[..., Any]:
    """Return an order of requests by these fields of their positions."""
    return lambda items: [
        item for _, item in sorted(items, key=lambda pair: [getattr(pair[0], name) for name in names])
    ]


MUTANTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "requests decided in the order of arrival": (
        "jobs.enforce.packing.in_order",
        lambda items: [item for _, item in items],
    ),
    "requests of a partition sorted by timestamp": (
        "jobs.enforce.packing.in_order",
        _sorted_by("timestamp", "offset"),
    ),
    "requests of several partitions decided partition by partition": (
        "jobs.enforce.packing.in_order",
        _sorted_by("partition", "offset"),
    ),
    "a bucket's state not saved in later batches": (
        "jobs.enforce.decide.answer_requests",
        lambda config, key, requests, state: answer_requests(config, key, requests, _Forgetful(state)),
    ),
    "burst of Q * S * W although the quota has its own burst": ("quota.records.quota.Window.burst", _without_own_burst),
    "quotas taken from five seconds later": (
        "quota.admission.resolve.resolve_quota",
        lambda user, client, at, *rest: resolve_quota(user, client, at + _LATER_MS, *rest),
    ),
    "refused topics charged": ("quota.algorithms.token_bucket.charge", _all_charged),
    "one bucket for all clients of a user": ("jobs.enforce.resolve.pack_request", _bucket_of_user),
    "resets ignored": ("quota.algorithms.token_bucket.is_reset", lambda *_: False),
    "repeats recognized without a time limit": ("quota.algorithms.deduplication.Deduplication.find", _find_of_any_age),
    "repeats recognized by id and topic names alone": (
        "quota.algorithms.deduplication._digest",
        _digest_without_costs,
    ),
    "remembered requests forgotten after each batch": (
        "jobs.enforce.decide.encode_bucket",
        lambda bucket: encode_bucket(msgspec.structs.replace(bucket, admitted_requests={})),
    ),
    "refused topics remembered as charged": (
        "quota.algorithms.deduplication.Deduplication.add",
        _add_with_refused,
    ),
    "more requests remembered per bucket than allowed": (
        "quota.algorithms.deduplication.Deduplication.add",
        lambda rule, *args: _add(replace(rule, max_requests=1000), *args),
    ),
}
"""Each mutant by its name: what is patched, and the replacement."""
