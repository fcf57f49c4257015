"""Deciding lines of requests by the very code that the job runs, without Spark or Kafka."""

from collections.abc import Iterable, Iterator

import msgspec

from quota.admission.decide import decide
from quota.admission.policy import Policy
from quota.admission.resolve import Quotas, resolve
from quota.algorithms.algorithm import Algorithm, S
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadRecord
from quota.records import codec
from quota.records.callback import Callbacks
from quota.records.dead_letter import dead_letter
from quota.records.decision import DeadLetter, Decision
from quota.records.entity import Tags
from quota.records.fields import SINCE_EVER, EpochMs
from quota.records.quota_log import read_log_record
from quota.records.record import Record, Source
from quota.timeline.change import change_of


class _Stamped(msgspec.Struct):
    timestamp: EpochMs


class _Placed(msgspec.Struct):
    topic: str


_stamp_decoder = msgspec.json.Decoder(_Stamped)
_place_decoder = msgspec.json.Decoder(_Placed)


def simulate(
    lines: Iterable[bytes],
    quotas: Quotas,
    algorithm: Algorithm[S],
    topic: str = "mutation-requests",
    policy: Policy = Policy(),  # noqa: B008 it cannot be changed
) -> Iterator[Decision | DeadLetter]:
    """Decide requests, one JSON object with a `timestamp` (epoch ms) a line, in the order of the lines.

    Where its topic tells a request's user, a line has its `topic` too.

    Yields:
        One answer a line; a line that is no request gives a dead letter in its place.
    """
    buckets: dict[Tags, S | None] = {}
    for number, line in enumerate(lines):
        value = line.rstrip(b"\r\n")
        source = Source(topic if policy.requests_of_users is None else _topic(value) or topic, 0, number)
        record = Record(source, 0, value)
        timestamp, error = _timestamp(record.value)
        resolved = resolve(msgspec.structs.replace(record, timestamp=timestamp or 0), quotas, policy)
        if isinstance(resolved, DeadLetter):
            yield msgspec.structs.replace(resolved, timestamp=timestamp)
        elif error is not None:
            yield msgspec.structs.replace(dead_letter(record, error, policy.max_bytes), timestamp=None)
        else:
            tags = resolved.resolution.tags
            buckets[tags], (decision,) = decide(buckets.get(tags), [resolved], algorithm)
            yield decision


def read_quotas(lines: Iterable[bytes], callbacks: Callbacks | None = None) -> CallbackTimeline:
    """Read a quota log, one JSON object a line; `effective_at` stands for the record's time, none means since ever.

    Raises:
        BadRecord: a line is no quota; with its number.
    """
    quotas = CallbackTimeline(callbacks)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = read_log_record(line)
        except BadRecord as error:
            raise BadRecord(f"{number}: {error}") from None
        quotas.add(change_of(record, SINCE_EVER))
    return quotas


def _topic(value: bytes) -> str | None:
    """The topic that a line tells."""
    try:
        return codec.decode(value, _place_decoder).topic
    except BadRecord:
        return None


def _timestamp(value: bytes | None) -> tuple[int | None, str | None]:
    """The time that a line tells, or what is wrong with it."""
    try:
        return codec.decode(value, _stamp_decoder).timestamp, None
    except BadRecord as error:
        return None, str(error)
