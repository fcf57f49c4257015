"""The simulation: decisions on requests in a file, by the code that the job runs, without Spark or Kafka."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from quota.admission.decide import decide
from quota.admission.policy import Policy
from quota.admission.resolve import resolve
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadRecord
from quota.records import codec
from quota.records.dead_letter import DeadLetter, make_dead_letter
from quota.records.decision import Decision
from quota.records.entity import Tags
from quota.records.quota_log import Callbacks, read_quota_log_record
from quota.records.record import BEGINNING, EpochMs, Record, Source
from quota.timeline.change import to_change
from quota.whatif.rejected_algorithms import Algorithm


class _Timestamp(msgspec.Struct):
    timestamp: EpochMs


class _Topic(msgspec.Struct):
    topic: str


_timestamp_decoder = msgspec.json.Decoder(_Timestamp)
_topic_decoder = msgspec.json.Decoder(_Topic)


def simulate(
    lines: Iterable[bytes],
    quotas: CallbackTimeline,
    algorithm: Algorithm,
    topic: str = "mutation-requests",
    policy: Policy = Policy(),  # noqa: B008 immutable
) -> Iterator[Decision | DeadLetter]:
    """Decide requests in the order of their lines, each a JSON object with a `timestamp` (epoch ms).

    Blank lines are skipped. If the topic identifies a request's user, a line has its `topic`, too.
    """
    buckets: dict[Tags, Any] = {}
    for number, line in enumerate(lines):
        value = line.rstrip(b"\r\n")
        if not value.strip():
            continue
        source = Source(topic if policy.user_topic_prefix is None else _read_topic(value) or topic, 0, number)
        record = Record(source, 0, value)
        timestamp, error = read_timestamp(value)
        resolved = resolve(msgspec.structs.replace(record, timestamp=timestamp or 0), quotas, policy)
        if isinstance(resolved, DeadLetter):
            yield msgspec.structs.replace(resolved, timestamp=timestamp)
        elif error is not None:
            yield msgspec.structs.replace(make_dead_letter(record, error, policy.max_bytes), timestamp=None)
        else:
            tags = resolved.resolution.tags
            buckets[tags], decision = decide(buckets.get(tags), resolved, algorithm)
            yield decision


def read_quotas(lines: Iterable[bytes], callbacks: Callbacks | None = None) -> CallbackTimeline:
    """Parse a quota log, one JSON object a line.

    `effective_at` is used as the record's timestamp; a line without it is in force from the beginning.
    """
    quotas = CallbackTimeline(callbacks)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = read_quota_log_record(line)
        except BadRecord as error:
            raise BadRecord(f"{number}: {error}") from None
        quotas.add(to_change(record, BEGINNING))
    return quotas


def _read_topic(value: bytes) -> str | None:
    try:
        return codec.decode(value, _topic_decoder).topic
    except BadRecord:
        return None


def read_timestamp(value: bytes) -> tuple[int | None, str | None]:
    """Return the timestamp of a line (epoch ms) and None, or None and the error."""
    try:
        return codec.decode(value, _timestamp_decoder).timestamp, None
    except BadRecord as error:
        return None, str(error)
