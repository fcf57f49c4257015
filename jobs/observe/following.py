"""`observe follow`: follows request logs, and writes mutation requests to the request topic."""

import logging
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from prometheus_client.metrics_core import Metric as Family

from jobs.metrics.families import family
from jobs.observe.importing import take_snapshot
from jobs.observe.tail import LogPosition, LogTail
from quota.admission.policy import MAX_REQUEST_RECORD_BYTES
from quota.errors import BadRecord
from quota.kafka.producers import PositionWriter
from quota.kafka.timing import Every, LoopStats
from quota.observation.layouts import LogTime
from quota.observation.observer import Counts, Observer, TopicSizes
from quota.observation.request_log import mutation_lines, read_line
from quota.records import codec
from quota.records.request import MutationRequest
from quota.settings import Settings
from quota.settings.principals import PrincipalRules
from quota.text import plural

_log = logging.getLogger(__name__)

_IDLE_SECONDS = 0.25
_PLACE_SECONDS = 5.0
"""The interval between writes of the position while no line has a mutation."""

_MAX_ERRORS_LOGGED = 20

_TRANSACTION_SECONDS = 60.0
"""The longest time for which the transaction of a killed observer can delay requests of others."""

_decoder = msgspec.json.Decoder(dict[str, LogPosition])


@dataclass(slots=True)
class FollowStats(LoopStats):
    """The counts of `observe follow`."""

    counts: Counts = field(default_factory=Counts)
    """The counts of the requests that were read."""
    invalid_lines: int = 0
    invalid_bytes: int = 0
    behind_bytes: int = 0
    """The bytes of the logs that are not read yet."""

    def __str__(self) -> str:
        counts = self.counts
        return (
            f"observed: {plural(counts.requests.total(), 'request')} for "
            f"{plural(counts.mutations.total(), 'mutation')}; rejected by the "
            f"cluster: {plural(counts.rejected_topics, 'topic')}; cost assumed of "
            f"{plural(counts.assumed_topics.total(), 'topic')}; "
            f"invalid lines: {self.invalid_lines:,} ({plural(self.invalid_bytes, 'byte')})"
        )


class Follower:
    """Follows logs; writes requests and positions in one transaction."""

    def __init__(self, settings: Settings, logs: Sequence[Path], stats: FollowStats, *, from_beginning: bool) -> None:
        """Take over from an earlier observer of the group, and continue at its position; `stats` are updated.

        A log without a position is read from its first line if `from_beginning`, otherwise from its end.
        """
        self._settings, self._stats = settings, stats
        own = settings.observe
        largest = MAX_REQUEST_RECORD_BYTES * 2
        self._writer = PositionWriter(
            settings, "observer", own.group or f"observe-{socket.gethostname()}", largest, _TRANSACTION_SECONDS
        )
        positions = self._writer.position(_decoder) or {}
        self._tails = {
            str(log): LogTail(log, positions.pop(str(log.absolute()), None), from_beginning=from_beginning)
            for log in logs
        }
        self._others = positions  # the positions of logs that are not followed now are preserved
        self._times = {name: LogTime(own.zone) for name in self._tails}
        sizes = TopicSizes(take_snapshot(settings).partitions, own.default_partitions or None)
        self._observer = Observer(sizes, PrincipalRules(own.principal_mapping_rules).user)
        stats.counts = self._observer.counts
        self._place_due = Every(_PLACE_SECONDS)
        self._write([])  # stores the start position of each log, even if this program ends soon

    def run(self, stop: threading.Event, *, once: bool) -> None:
        """Follow until `stop` is set, or with `once` to the current ends of the logs. Then close the logs."""
        try:
            self._follow(stop, once=once)
        finally:
            self.close()

    def close(self) -> None:
        """Close the log files."""
        for tail in self._tails.values():
            tail.close()

    def _follow(self, stop: threading.Event, *, once: bool) -> None:
        while not stop.is_set():
            self._stats.looped_at = time.monotonic()
            requests, is_idle = self._read()
            records = [(request, value) for request in requests if self._fits(request, value := codec.encode(request))]
            if records or self._place_due.is_due() or (once and is_idle):
                self._write(records)
            if is_idle and once:
                return
            if is_idle:
                stop.wait(_IDLE_SECONDS)

    def _read(self) -> tuple[list[MutationRequest], bool]:
        """Return the next requests of all logs, and whether there was nothing to read."""
        requests: list[MutationRequest] = []
        is_idle = True
        for name, tail in self._tails.items():
            block = tail.read()
            is_idle = is_idle and not block
            for begin, end in mutation_lines(block):
                try:
                    logged = read_line(block[begin:end], self._times[name])
                except BadRecord as error:
                    self._count_broken(name, end - begin, error)
                    continue
                request = self._observer.observe(logged) if logged and not logged.forwarded else None
                if request is not None:
                    requests.append(request)
        self._stats.behind_bytes = sum(tail.behind_bytes for tail in self._tails.values())
        return requests, is_idle

    def _write(self, records: Sequence[tuple[MutationRequest, bytes]]) -> None:
        absolute = {str(Path(name).absolute()): tail.place for name, tail in self._tails.items()}
        self._writer.begin(self._others | absolute)
        with self._writer.errors("write requests"):
            for request, value in records:
                self._writer.produce(self._settings.topics.requests, value, request.user.encode())
        self._writer.commit()

    def _fits(self, request: MutationRequest, value: bytes) -> bool:
        """Return whether a request is small enough; one that is too large is logged and skipped."""
        if len(value) + len(request.user.encode()) <= MAX_REQUEST_RECORD_BYTES:
            return True
        _log.warning(
            "%s: a request of %d topics is larger than the %d bytes of a request and is skipped",
            request.request_id,
            len(request.topics),
            MAX_REQUEST_RECORD_BYTES,
        )
        return False

    def _count_broken(self, name: str, size: int, error: BadRecord) -> None:
        self._stats.invalid_lines += 1
        self._stats.invalid_bytes += size
        if self._stats.invalid_lines <= _MAX_ERRORS_LOGGED:
            _log.warning("%s: %s", name, error)


def observer_families(stats: FollowStats) -> Iterator[Family]:
    """Yield the metrics of an observer of request logs."""
    yield family("mutation_quota_observed_requests_total", stats.counts.requests.total())
    yield family("mutation_quota_observed_mutations_total", stats.counts.mutations.total())
    yield family("mutation_quota_observed_rejected_topics_total", stats.counts.rejected_topics)
    yield family("mutation_quota_observed_assumed_topics_total", stats.counts.assumed_topics.total())
    yield family("mutation_quota_observed_invalid_lines_total", stats.invalid_lines)
    yield family("mutation_quota_observed_invalid_bytes_total", stats.invalid_bytes)
    yield family("mutation_quota_observed_behind_bytes", stats.behind_bytes)
