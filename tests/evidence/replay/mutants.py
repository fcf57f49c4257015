"""Ways of being wrong that the properties must catch: the test of the test.

A mutant is put in place where the stages run, which with Spark are its Python workers: so the stages' functions are
replaced by those of this module, which Spark can name to the workers, and which break what they call.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import msgspec

from jobs.enforce.decide import _answers_of_bucket, _decide_bucket
from jobs.enforce.packed import to_row
from jobs.enforce.resolve import _resolve_batches
from jobs.enforce.state import state_of
from quota.admission.resolve import judged_by
from quota.algorithms.bucket import tokens_at
from quota.algorithms.deduplication import Deduplication

_LATER_MS = 5000
_FOR_EVER_MS = 2**62

_first, _remember = Deduplication.first, Deduplication.remember


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Have the stages broken inside the block, wherever they run."""
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
    """A state whose first writing is kept, and no later one."""

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
    row = to_row(record, resolved)
    if row["bucket"].startswith('["'):
        row["bucket"] = f'{row["bucket"].rpartition(",")[0]},""]'
    return row


def _without_own_burst(now: Any, bucket: Any, limit: Any, window: Any) -> Any:
    return tokens_at(now, bucket, replace(limit, quota=replace(limit.quota, burst=None)), window)


def _all_charged(tokens: float, _: float, topics: Any, __: Any, *, strict: bool) -> Any:
    admitted = [tokens >= 0 or not strict for _ in topics]
    return admitted, tokens - sum(topic.partitions for topic in topics)


def _first_ever(repeats: Deduplication, *args: Any) -> Any:
    return _first(replace(repeats, window_ms=_FOR_EVER_MS), *args) if repeats.window_ms else None


def _digest_without_costs(request: Any) -> bytes:
    names = [topic.name for topic in request.topics]
    return repr((request.user, request.client_id, request.request_id, request.operation, names)).encode()


def _remember_refused_too(repeats: Deduplication, remembered: Any, request: Any, answered: Any) -> Any:
    return _remember(repeats, remembered, request, msgspec.structs.replace(answered, topics=len(request.topics)))


MUTANTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "requests decided as they arrive": ("jobs.enforce.decide.in_order", lambda items, _: list(items)),
    "requests of a partition sorted by their timestamps": (
        "jobs.enforce.decide.in_order",
        lambda items, record_of: sorted(
            items, key=lambda item: (record_of(item).timestamp, record_of(item).source.offset)
        ),
    ),
    "requests of several partitions decided one partition after the other": (
        "jobs.enforce.decide.in_order",
        lambda items, record_of: sorted(
            items, key=lambda item: (record_of(item).source.partition, record_of(item).source.offset)
        ),
    ),
    "a bucket's state not saved in later batches": (
        "jobs.enforce.decide._answers_of_bucket",
        lambda answering, rows, state: _answers_of_bucket(answering, rows, _Forgetful(state)),
    ),
    "a burst of Q * S * W where the quota has its own": ("quota.algorithms.token_bucket.tokens_at", _without_own_burst),
    "quotas as of five seconds later": (
        "quota.admission.resolve.judged_by",
        lambda user, client, at, *rest: judged_by(user, client, at + _LATER_MS, *rest),
    ),
    "refused topics charged": ("quota.algorithms.token_bucket.charge", _all_charged),
    "one bucket for all clients of a user": ("jobs.enforce.resolve.to_row", _bucket_of_user),
    "resets not followed": ("quota.algorithms.token_bucket.is_reset", lambda *_: False),
    "requests sent again known for ever": ("quota.algorithms.deduplication.Repeats.first", _first_ever),
    "requests sent again known by id and topics' names": (
        "quota.algorithms.deduplication._digest",
        _digest_without_costs,
    ),
    "requests forgotten with each batch": (
        "jobs.enforce.decide.state_of",
        lambda bucket: state_of(msgspec.structs.replace(bucket, remembered={})),
    ),
    "refused topics remembered as paid for": ("quota.algorithms.deduplication.Repeats.remember", _remember_refused_too),
    "more requests remembered than a bucket may": (
        "quota.algorithms.deduplication.Repeats.remember",
        lambda repeats, *args: _remember(replace(repeats, most=1000), *args),
    ),
}
"""What is broken: its name, and what stands there instead."""
