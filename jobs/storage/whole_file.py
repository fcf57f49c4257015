"""Reads files as a whole, also from standard input, and writes files atomically."""

import errno
import io
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from quota.errors import BadInput

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
"""The errors of a file system without hard links, such as some network mounts."""


def read_whole(file: Path) -> bytes:
    """Return the content of a file that a person named, or of standard input (`-`)."""
    if str(file) == "-":
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None


def write_whole(file: Path, content: str | bytes, *, new: bool = False) -> None:
    """Write a file atomically, so that a full disk leaves no partial file; a `new` file must not exist."""
    with whole_file(file, new=new) as out:
        out.write(content if isinstance(content, bytes) else content.encode())


@contextmanager
def whole_file(file: Path, *, new: bool = False) -> Iterator[BinaryIO]:
    """Provide a temporary file, which is renamed at the end of the block unless there is an error.

    Errors of writing name `file`.
    """
    # A unique name, because two programs may write the same file.
    part = file.with_name(f".{file.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("wb", buffering=0) as raw, io.BufferedWriter(_NamedFile(raw, str(file))) as out:
            yield out
        if new:
            _publish_new(part, file)
        else:
            part.replace(file)
    finally:
        part.unlink(missing_ok=True)


class _NamedFile(io.RawIOBase):
    """A file whose errors of writing have a name."""

    def __init__(self, raw: io.RawIOBase, name: str) -> None:
        self._raw, self._name = raw, name

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int | None:  # noqa: ANN401 any buffer
        try:
            return self._raw.write(data)
        except OSError as error:
            error.filename = self._name
            raise


def _publish_new(part: Path, file: Path) -> None:
    """Rename a complete file; the hard link fails if the name exists."""
    try:
        file.hardlink_to(part)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        file.touch(exist_ok=False)  # reserves the name
        part.replace(file)
