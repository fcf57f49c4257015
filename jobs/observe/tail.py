"""Follows a log that is being written, including its rotations."""

import logging
import os
import sys
from collections import deque
from datetime import tzinfo
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import msgspec

from jobs.observe.scanning import UNREADABLE, check_end, is_compressed, open_log
from quota.errors import BadInput
from quota.observation.layouts import join

_log = logging.getLogger(__name__)

_BLOCK_BYTES = 1024 * 1024
_FIRST_LINE_BYTES = 65_536
_LAST_BYTES = 4096
_MAX_LINE_BYTES = 64 * 1024 * 1024
_REMEMBERED_FILES = 1000
_CHECKED_FILES = 5


class LogPosition(msgspec.Struct, frozen=True):
    """A position in a log: the offset up to which a file of it has been read.

    It is found again by what was read, under any name and compressed. A file that was given the inode of another one
    has other bytes there; of several files with the same bytes, such as a header, the one with the inode is meant.
    """

    first_line: str
    """A hash of the file's first line; empty if it has no line yet."""
    offset: int
    """The number of bytes that have been read, uncompressed."""
    last: str = ""
    """A hash of the last of these bytes; empty in positions of older programs."""
    inode: int = 0
    """The number of the file in its file system; 0 in positions of older programs."""


def check_log(log: Path, zone: tzinfo) -> None:
    """Check that a log can be read, and is a request log, with its rotated files.

    It may be missing for a moment while it is rotated, and empty.
    """
    rotated = _rotated(log)[::-1]
    if str(log) == "-" or (log.exists() and not log.is_file()):
        raise BadInput(f"{log}: only a regular file can be followed; observe import reads pipes")
    try:
        open_log(log).close()
    except OSError as error:
        if not rotated:
            raise BadInput(f"{log}: {error.strerror}") from None
    check_end((file for file in [log, *rotated[:_CHECKED_FILES]] if file.exists()), zone)


class LogTail:
    """Reads the lines of a log that is being written.

    When the log is rotated by renaming it, the rest of the old file is read first, then files that were rotated
    meanwhile. When it is copied and truncated in place, the rest is read from the copy. A restarted program finds its
    position in the file under its new name, even if it is compressed.
    """

    def __init__(self, log: Path, place: LogPosition | None, *, from_beginning: bool = False) -> None:
        """Continue at the position of an earlier program.

        Without one, the log is read from its first line if `from_beginning`, otherwise from its end.
        """
        self._path = log
        self._rest, self._last, self._offset, self._first_line = b"", b"", 0, ""
        self._read_before: deque[LogPosition] = deque(maxlen=_REMEMBERED_FILES)
        if place is not None and (place.first_line or place.inode):
            self._resume(place)
            return
        self._open(log)
        if place is None and not from_beginning:
            while self._read_lines():
                pass

    @property
    def place(self) -> LogPosition:
        """The position after the lines that were read."""
        return LogPosition(self._first_line, self._offset, _hash(self._last), self._inode[1])

    @property
    def _end(self) -> LogPosition:
        """The position after all bytes that were read, also those of an incomplete line."""
        last = (self._last + self._rest)[-_LAST_BYTES:]
        return LogPosition(self._first_line, self._offset + len(self._rest), _hash(last))

    @property
    def behind_bytes(self) -> int:
        """The bytes of the log that have not been read, without rotated files."""
        try:
            status = self._path.stat()
        except OSError:
            return 0
        return max(status.st_size - self._offset, 0) if self._is_open(status) else status.st_size

    def read(self) -> bytes:
        """Return the next complete lines; empty if there are none yet."""
        if self._is_cut_off():
            self._continue_in_copy()
        if lines := self._read_lines():
            return lines
        following = self._following()
        if following is None:
            return b""
        if lines := self._read_lines():  # those that were written before the rotation was noticed
            return lines
        if whole := self._rest.rfind(b"\n") + 1:  # lines that waited for the rest of one that was cut
            lines = join(self._rest[:whole], at_end=True)[0]
            self._pass(whole)
            return lines
        if self._rest:
            _log.warning("%s: a rotation truncated its last line", self._path)
        self._open(following)
        return self._read_lines()

    def close(self) -> None:
        """Close the file that is being read."""
        self._stream.close()

    def _read_lines(self) -> bytes:
        """Return complete lines up to the end of the file; a line that is too long is skipped."""
        try:
            while not (joined := join(self._rest))[1]:
                block = self._stream.read(_BLOCK_BYTES)
                if not block:
                    return b""
                self._rest += block
                if len(self._rest) > _MAX_LINE_BYTES and b"\n" not in self._rest:
                    self._skip_line()
        except UNREADABLE as error:
            raise BadInput(f"{self._path}: {getattr(error, 'strerror', None) or error}") from None
        self._pass(joined[1])
        return joined[0]

    def _pass(self, size: int) -> None:
        """Count these first bytes of the rest as read."""
        if not self._offset:
            self._first_line = self._first_line or _hash_line(self._rest)
        self._last = (self._last + self._rest[:size])[-_LAST_BYTES:]
        self._rest = self._rest[size:]
        self._offset += size

    def _skip_line(self) -> None:
        _log.warning("%s: skipped a line of more than %d MB", self._path, _MAX_LINE_BYTES // 2**20)
        self._pass(len(self._rest))
        while block := self._stream.read(_BLOCK_BYTES):
            self._rest, end = block, block.find(b"\n") + 1
            self._pass(end or len(block))
            if end:
                return

    def _open(self, file: Path, offset: int = 0) -> None:
        if hasattr(self, "_stream"):
            self._stream.close()
            self._read_before.append(self._end)
        try:
            self._stream: BinaryIO = open_log(file)
            status = file.stat()
            self._is_plain = not is_compressed(file)
        except OSError as error:
            raise BadInput(f"{file}: {error.strerror}") from None
        self._inode, self._written_at = (status.st_dev, status.st_ino), status.st_mtime_ns
        self._rest, self._offset, self._last = b"", 0, b""
        self._first_line = _first_line(file)
        while self._offset < offset and (block := self._stream.read(min(_BLOCK_BYTES, offset - self._offset))):
            self._rest = block
            self._pass(len(block))

    def _resume(self, place: LogPosition) -> None:
        for _ in range(2):  # the log may be rotated meanwhile
            log, rotated = [self._path], _rotated(self._path)[::-1]
            # It may be a copy, or compressed. One that says little is in many files: in the log, or else the newest.
            likely = [*rotated, *log] if place.first_line and place.last else [*log, *rotated]
            if files := [file for file in likely if _is_at(file, place)]:
                self._open(next((file for file in files if file.stat().st_ino == place.inode), files[0]), place.offset)
                return
        _log.warning(
            "%s: the file that was read is neither the log nor a rotated copy; reading the log from its first line, "
            "earlier requests are not observed",
            self._path,
        )
        self._open(self._path)

    def _is_open(self, status: os.stat_result) -> bool:
        return (status.st_dev, status.st_ino) == self._inode

    def _is_cut_off(self) -> bool:
        """Return whether the file was truncated in place since the last read."""
        try:
            status = self._path.stat()
        except OSError:
            return False
        if not self._is_open(status) or status.st_mtime_ns == self._written_at or not self._is_plain:
            return False
        self._written_at = status.st_mtime_ns
        is_shorter = status.st_size < self._offset + len(self._rest)
        return is_shorter or not _is_at(self._path, self.place)

    def _continue_in_copy(self) -> None:
        """Read the rest of a log that was truncated in place from its copy, if there is one."""
        place = self.place
        for file in reversed(_rotated(self._path)):
            if _is_at(file, place):
                self._open(file, place.offset)
                self._read_before.pop()  # the copy is the same file
                self._inode = (0, 0)  # the log itself follows
                return
        _log.warning(
            "%s was truncated, and there is no copy: requests that were logged since the last read are not observed",
            self._path,
        )
        self._open(self._path)

    def _following(self) -> Path | None:
        """Return the file to read after the current one, if the log was rotated."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None  # in the middle of a rotation
        except OSError as error:
            raise BadInput(f"{self._path}: {error.strerror}") from None
        if self._is_open(status):
            return None
        written_at = os.fstat(self._stream.fileno()).st_mtime_ns if self._is_plain else self._written_at
        read = {*self._read_before, self._end}
        begun = {end.first_line for end in read}

        def is_new(file: Path) -> bool:
            end = _position(file)
            return end.first_line != "" and (end.first_line not in begun or (end.offset >= 0 and end not in read))

        later = (file for file in _rotated(self._path) if _written(file) >= written_at and is_new(file))
        return next(later, self._path)


def _rotated(log: Path) -> list[Path]:
    """Return the rotated files of a log, oldest first, without deleted files."""
    rotated = [(_written(file), file) for file in log.parent.glob(f"{log.name}?*")]
    return [file for written_at, file in sorted(rotated) if written_at and file.is_file()]


def _written(file: Path) -> int:
    """Return the time of the last write to a file [ns]; 0 if it does not exist."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _is_at(file: Path, place: LogPosition) -> bool:
    """Return whether a file has these bytes before a position."""
    if place.first_line not in {_first_line(file), ""}:
        return False  # the rest may take long to uncompress
    found = _position(file, place.offset)
    return place.last in {found.last, ""} and found.offset == place.offset


def _position(file: Path, end: int = sys.maxsize) -> LogPosition:
    """Return the position at an offset of a file, or at its end; its offset is -1 if the file cannot be read so far."""
    at, last = 0, b""
    try:
        with open_log(file) as stream:
            if not is_compressed(file):
                at = stream.seek(max(min(end, file.stat().st_size) - _LAST_BYTES, 0))
            while block := stream.read(min(_BLOCK_BYTES, end - at)):
                at += len(block)
                last = (last + block)[-_LAST_BYTES:]
    except UNREADABLE:
        at = -1
    return LogPosition(_first_line(file), at, _hash(last))


def _first_line(file: Path) -> str:
    """Return the hash of a file's first line; empty if it has no line."""
    try:
        with open_log(file) as stream:
            return _hash_line(stream.read(_FIRST_LINE_BYTES))
    except UNREADABLE:
        return ""


def _hash_line(lines: bytes) -> str:
    """Return the hash of the first line, or of the beginning of a very long one; empty if it is incomplete."""
    end = lines.find(b"\n", 0, _FIRST_LINE_BYTES)
    if end < 0 and len(lines) < _FIRST_LINE_BYTES:
        return ""
    return _hash(lines[: end if end >= 0 else _FIRST_LINE_BYTES])


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=12).hexdigest()
