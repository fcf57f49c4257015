"""Log files, which may be compressed, and segments of them, which separate processes read."""

import bz2
import gzip
import lzma
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self, cast

from quota.errors import BadInput
from quota.observation.wrapping import is_wrapped, join

_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
_XZ = b"\xfd7zXZ"
_OPENERS: Mapping[str, Callable[[Path], object]] = {"gzip": gzip.open, "bz2": bz2.open, "xz": lzma.open}
_HEAD_BYTES = 64

SEGMENT_BYTES = 64 * 1024 * 1024
MAX_LINE_BYTES = 256 * 1024 * 1024
"""The longest line. A request may name thousands of topics, so lines may have megabytes, but not more than this."""

_BLOCK_BYTES = 1024 * 1024
"""A block that fits into a processor's cache is searched faster: 0.9 GB in 0.65 s, and in 1.0 s with blocks of 8 MB."""


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
        with copy.open("wb") as out, nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as pipe:
            shutil.copyfileobj(pipe, out)
    except OSError as error:
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
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
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
