"""The mutations and the unreadable lines of request logs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path

from jobs.observe.segments import Segment, read_blocks
from quota.errors import BadInput, BadRecord
from quota.observation.log_time import LogTime
from quota.observation.request_log import PATTERN, LoggedRequest, has_results, mutation_lines, read_line
from quota.observation.wrapping import MARK, CutOff
from quota.text import plural

_JSON, _OLD = MARK + b"{", MARK + b"RequestHeader("
"""The beginning of a message, as JSON, and as written by brokers before Kafka 2.8."""

_NEED = (
    f"Set the layout of kafka.request.logger to the pattern {PATTERN}, or to JSON with a time and the message in each "
    "line, and let nothing cut lines"
)


@dataclass
class Found:
    """The counts of a log, or of a segment of it."""

    bytes: int = 0
    requests: int = 0
    broken: int = 0
    """Lines with a mutation that cannot be parsed."""
    broken_bytes: int = 0
    cut: int = 0
    """Those whose end is missing."""
    first_broken: str | None = None
    rest_bytes: int = 0
    """The size of the first line if it is the rest of a mutation: logs are rotated between pieces of a line, too."""
    is_request_log: bool = False
    is_old: bool = False

    def add(self, other: "Found") -> None:
        """Add the counts of a later segment."""
        self.bytes += other.bytes
        self.requests += other.requests
        self.broken += other.broken
        self.broken_bytes += other.broken_bytes
        self.cut += other.cut
        self.first_broken = self.first_broken or other.first_broken
        self.rest_bytes += other.rest_bytes
        self.is_request_log |= other.is_request_log
        self.is_old |= other.is_old

    def check(self, file: Path) -> None:
        """Check that a file is empty, or a request log of which mutations can be read, if it has any."""
        if self.is_old and not self.is_request_log:
            raise BadInput(f"{file}: a request log of Kafka before 2.8, which is not JSON; use logs of 2.8 or newer")
        if self.bytes and not self.is_request_log and not self.broken:
            raise BadInput(
                f"{file}: not a request log, no line has {MARK.decode()!r}; brokers write it if kafka.request.logger "
                "is at DEBUG"
            )
        if self.broken and not self.requests:
            lines = f"none of {plural(self.broken, 'line')} with a mutation ({plural(self.broken_bytes, 'byte')})"
            raise BadInput(f"{file}: {lines} can be read; the first: {self.first_broken}. {_NEED}")


def scan(segment: Segment, zone: tzinfo, add: Callable[[int, LoggedRequest], None]) -> Found:
    """Pass each request of a segment to `add`, with its place in the log, and return the counts."""
    counts, time = Found(), LogTime(zone)
    for block in read_blocks(segment):
        if not (segment.begin or counts.bytes):
            counts.rest_bytes = _rest_bytes(block[: block.find(b"\n") + 1])
        counts.is_request_log = counts.is_request_log or _JSON in block
        counts.is_old = counts.is_old or _OLD in block
        for begin, end in mutation_lines(block):
            try:
                logged = read_line(block[begin:end], time)
            except BadRecord as error:
                counts.broken += 1
                counts.broken_bytes += end - begin
                counts.cut += isinstance(error, CutOff)
                counts.first_broken = counts.first_broken or str(error)
                continue
            if logged is not None:
                counts.requests += 1
                add(segment.begin + counts.bytes + begin, logged)
        counts.bytes += len(block)
    return counts


def _rest_bytes(first: bytes) -> int:
    return len(first) if MARK not in first and has_results(first) else 0


def check_end(files: Iterable[Path], zone: tzinfo) -> None:
    """Check the ends of the files of one log, the newest first, up to one that shows that the log can be read."""
    counts, first = Found(), None
    for file in files:
        first = first or file
        counts.add(scan(Segment.end_of(file), zone, lambda *_: None))
        if counts.requests or (counts.is_request_log and not counts.broken):
            return
    if first:
        counts.check(first)
