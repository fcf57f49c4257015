"""The mutations and the unreadable lines of request logs.

A log may be compressed. One that is not is cut into segments, which separate processes read.
"""

import bz2
import gzip
import lzma
import shutil
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import BinaryIO, Self, cast

from jobs.storage.whole_file import whole_file
from quota.errors import BadInput, BadRecord
from quota.observation.layouts import MARK, CutOff, LogTime, is_wrapped, join
from quota.observation.request_log import PATTERN, LoggedRequest, has_results, mutation_lines, read_line
from quota.text import plural

_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
_XZ = b"\xfd7zXZ"
_OPENERS: Mapping[str, Callable[[Path], object]] = {"gzip": gzip.open, "bz2": bz2.open, "xz": lzma.open}
_HEAD_BYTES = 64
UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""The errors of reading a file, also of one that is compressed and damaged, or not yet written to its end."""

SEGMENT_BYTES = 64 * 1024 * 1024
MAX_LINE_BYTES = 256 * 1024 * 1024
"""The longest line. A request may name thousands of topics, so lines may have megabytes, but not more than this."""

_BLOCK_BYTES = 1024 * 1024
"""A block that fits into a processor's cache is searched faster than a larger one."""

_JSON, _OLD = MARK + b"{", MARK + b"RequestHeader("
"""The beginning of a message, as JSON, and as written by brokers before Kafka 2.8."""

_NEED = (
    f"Set the layout of kafka.request.logger to the pattern {PATTERN}, or to JSON with a time and the message in each "
    "line, and let nothing cut lines"
)


@dataclass(frozen=True, slots=True)
class Segment:
    """The lines of a file that begin between two offsets; for a compressed file, all lines."""

    log: int
    """The number of the log."""
    file: Path
    begin: int
    end: int

    @property
    def bytes(self) -> int:
        """The number of bytes."""
        return self.end - self.begin

    @classmethod
    def end_of(cls, file: Path) -> Self:
        """Return the last lines of a file."""
        size = file.stat().st_size
        return cls(0, file, max(size - SEGMENT_BYTES, 0), size)


def saved(file: Path, folder: Path) -> Path:
    """Return a regular file with the content of a pipe, or of standard input for `-`, which can be read only once."""
    if str(file) != "-" and (file.is_file() or not file.exists() or file.is_dir()):
        return file
    copy = folder / f"{len(list(folder.iterdir()))}.piped"
    try:
        with whole_file(copy) as out, nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as pipe:
            shutil.copyfileobj(pipe, out)
    except OSError as error:
        if error.filename not in {None, str(file)}:
            raise  # of the copy
        raise BadInput(f"{file}: {error.strerror}") from None
    return copy


def segments(log: int, file: Path) -> list[Segment]:
    """Return the segments of a file."""
    try:
        size = file.stat().st_size
        is_whole = is_compressed(file) or is_wrapped(_head(file))  # pieces of a line may be far from each other
        step = max(size, 1) if is_whole else SEGMENT_BYTES
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None
    return [Segment(log, file, begin, min(begin + step, size)) for begin in range(0, max(size, 1), step)]


def read_blocks(segment: Segment) -> Iterator[bytes]:
    """Yield the lines of a segment, in blocks of complete lines."""
    file = segment.file
    try:
        with open_log(file) as stream:
            if is_compressed(file):
                yield from _whole_lines(file, stream, None)
                return
            if segment.begin:
                stream.seek(segment.begin - 1)
                stream.readline(MAX_LINE_BYTES)  # a line that begins in the previous segment
            yield from _whole_lines(file, stream, segment.end)
    except UNREADABLE as error:
        raise BadInput(f"{file}: {getattr(error, 'strerror', None) or error}") from None


def _whole_lines(file: Path, stream: BinaryIO, end: int | None) -> Iterator[bytes]:
    """Yield the lines that begin before the offset `end`; all lines of the stream if it is None."""
    at = 0 if end is None else stream.tell()
    rest: list[bytes] = []
    while block := stream.read(_BLOCK_BYTES if end is None else min(_BLOCK_BYTES, max(end - at, 0))):
        at += len(block)
        rest.append(block)
        if b"\n" in block:
            data = b"".join(rest)
            lines, size = join(data)
            if lines:
                yield lines
            rest = [data[size:]]
        if sum(map(len, rest)) > MAX_LINE_BYTES:
            raise BadInput(f"{file}: not a log: a line of more than {MAX_LINE_BYTES // 2**20} MB")
    if any(rest):
        last = b"".join([*rest, b"" if end is None else stream.readline(MAX_LINE_BYTES)])
        yield join(last, at_end=True)[0]


def is_compressed(file: Path) -> bool:
    """Return whether a file is compressed."""
    return _compression(file) is not None


def open_log(file: Path) -> BinaryIO:
    """Open a file, which may be compressed with gzip, bzip2, xz, zstd or lz4, as its content says."""
    compression = _compression(file)
    if compression is None:
        return file.open("rb")
    if compression in _OPENERS:
        return cast("BinaryIO", _OPENERS[compression](file))
    try:
        import pyarrow as pa  # noqa: PLC0415 the base installation is without it
    except ModuleNotFoundError:
        raise BadInput(f"{file}: to read {compression}, install pyarrow, or uncompress the file") from None
    return cast("BinaryIO", pa.input_stream(str(file), compression=compression))


def _head(file: Path) -> bytes:
    if file.is_dir():
        raise BadInput(f"{file}: a folder; name its files, as in {file}/*")
    with file.open("rb") as raw:
        return raw.read(_HEAD_BYTES)


def _compression(file: Path) -> str | None:
    head = _head(file)
    if head.startswith(_XZ):
        return "xz"
    return next((name for magic, name in _COMPRESSIONS.items() if head.startswith(magic)), None)


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
            first = block[: block.find(b"\n") + 1]
            counts.rest_bytes = len(first) if MARK not in first and has_results(first) else 0
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
