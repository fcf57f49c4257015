"""A disk without free space."""

import errno
import io
import os
from pathlib import Path


class _FullFile(io.RawIOBase):
    def writable(self):
        return True

    def write(self, _):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fill_disk(monkeypatch):
    """Make each write to a file fail with ENOSPC; files are still created."""
    opened = Path.open

    def full(self, mode="r", *args, **kwargs):
        file = opened(self, mode, *args, **kwargs)
        if mode != "wb":
            return file
        file.close()
        return _FullFile()

    monkeypatch.setattr(Path, "open", full)
