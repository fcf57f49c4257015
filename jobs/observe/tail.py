"""A log that is being written, followed over its rotations."""

import logging
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import msgspec

from jobs.observe.compression import open_log
from quota.errors import BadInput

_log = logging.getLogger(__name__)

_BLOCK_BYTES = 1024 * 1024
_FIRST_LINE_BYTES = 65_536
_MAX_LINE_BYTES = 64 * 1024 * 1024


class LogPlace(msgspec.Struct, frozen=True):
    """A place in a log: how far a file of it has been read."""

    first_line: str
    """What tells the file from others, whatever its name has become: a hash of its first line."""
    offset: int
    """The bytes that have been read of it, uncompressed."""


class LogTail:
    """Reads the lines of a log as they are written.

    When the log is rotated, by a new name for the file or by cutting it off, the rest of the old file is read first.
    A program that starts again finds its place in whichever file that has become, also a compressed one.
    """

    def __init__(self, log: Path, place: LogPlace | None, *, from_beginning: bool = False) -> None:
        """Go on at a place.

        Args:
            log: the file that is written.
            place: where an earlier program has come to; None if there was none.
            from_beginning: whether a log without a place is read from its first line, and not from its end.

        Raises:
            BadInput: the log cannot be read.
        """
        self._path = log
        self._rest = b""
        self._stream: BinaryIO | None = None
        self._status: tuple[int, int, int] = (0, 0, 0)  # device, inode and time of change
        self._first_line = ""
        self._offset = 0
        if place is None:
            self._open(log)
            if not from_beginning:
                self._skip_to_end()
        else:
            self._resume(place)

    @property
    def place(self) -> LogPlace | None:
        """The place behind the lines that were read; None while the log is empty."""
        return LogPlace(self._first_line, self._offset) if self._first_line else None

    @property
    def behind_bytes(self) -> int:
        """What is written of the log and not read yet, without files that were rotated meanwhile [bytes]."""
        try:
            status = self._path.stat()
        except OSError:
            return 0
        is_present = (status.st_dev, status.st_ino) == self._status[:2]
        return max(status.st_size - self._offset, 0) if is_present else status.st_size

    def read(self) -> bytes:
        """Return the next whole lines, or nothing if there are none yet.

        Raises:
            BadInput: the log cannot be read any more.
        """
        lines = self._read_lines()
        if lines:
            return lines
        following = self._following()
        if following is None:
            return b""
        lines = self._read_lines()  # what was written before the rotation was noticed
        if not lines:
            if self._rest:
                _log.warning("%s: its last line was cut off by a rotation", self._path)
            self._open(following)
            lines = self._read_lines()
        return lines

    def _read_lines(self) -> bytes:
        if self._stream is None:
            return b""
        try:
            block = self._rest + self._stream.read(_BLOCK_BYTES)
        except (OSError, EOFError) as error:
            raise BadInput(f"{self._path}: {getattr(error, 'strerror', None) or error}") from None
        end = block.rfind(b"\n") + 1
        self._rest = block[end:]
        if len(self._rest) > _MAX_LINE_BYTES:
            raise BadInput(f"{self._path}: no log: a line of more than {_MAX_LINE_BYTES // 2**20} MB")
        if end and not self._first_line:
            self._first_line = _hash(block[:end])
        self._offset += end
        return block[:end]

    def _open(self, file: Path) -> None:
        """Read a file from its beginning."""
        if self._stream is not None:
            self._stream.close()
        try:
            self._stream = open_log(file)
            status = file.stat()
        except OSError as error:
            raise BadInput(f"{file}: {error.strerror}") from None
        self._status = status.st_dev, status.st_ino, status.st_mtime_ns
        self._rest, self._offset = b"", 0
        self._first_line = _first_line(file)

    def _skip_to_end(self) -> None:
        while self._read_lines():
            pass

    def _resume(self, place: LogPlace) -> None:
        for file in [self._path, *reversed(self._rotated())]:
            if _first_line(file) == place.first_line:
                self._open(file)
                self._skip(place.offset)
                return
        _log.warning(
            "%s: neither it nor a rotated copy has the line up to which it was read; it is read from its first line, "
            "and what was written before that is not observed",
            self._path,
        )
        self._open(self._path)

    def _skip(self, count: int) -> None:
        assert self._stream is not None  # noqa: S101 it was opened
        while self._offset < count:
            block = self._stream.read(min(_BLOCK_BYTES, count - self._offset))
            if not block:
                break
            self._offset += len(block)

    def _following(self) -> Path | None:
        """Return the file to read after the present one, if the log was rotated."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None  # between two files
        except OSError as error:
            raise BadInput(f"{self._path}: {error.strerror}") from None
        same_file = (status.st_dev, status.st_ino) == self._status[:2]
        if same_file and status.st_size >= self._offset:
            return None
        later = [] if same_file else [file for file in self._rotated() if file.stat().st_mtime_ns > self._changed_at()]
        return later[0] if later else self._path

    def _changed_at(self) -> int:
        """Return when the present file was written last [ns]; under its first name it may be there no more."""
        for file in [*self._rotated(), self._path]:
            status = file.stat()
            if (status.st_dev, status.st_ino) == self._status[:2]:
                return status.st_mtime_ns
        return self._status[2]

    def _rotated(self) -> list[Path]:
        """Return the rotated files, the oldest first."""
        others = [each for each in self._path.parent.glob(f"{self._path.name}?*") if each.is_file()]
        return sorted(others, key=lambda file: file.stat().st_mtime_ns)


def _first_line(file: Path) -> str:
    """Return the hash of a file's first line; an empty text if it has none."""
    try:
        with open_log(file) as stream:
            return _hash(stream.read(_FIRST_LINE_BYTES))
    except (OSError, EOFError):
        return ""


def _hash(lines: bytes) -> str:
    """Return the hash of the first line; of a very long one, of its beginning."""
    end = lines.find(b"\n", 0, _FIRST_LINE_BYTES)
    if end < 0 and len(lines) < _FIRST_LINE_BYTES:
        return ""
    return blake2b(lines[: end if end >= 0 else _FIRST_LINE_BYTES], digest_size=12).hexdigest()
