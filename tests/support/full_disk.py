"""Disks without free space: a small one, and one that fails."""

import errno
import io
import os
import subprocess
from contextlib import contextmanager
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


@contextmanager
def small_disk(folder, megabytes):
    """Mount a small disk inside the block, which takes root."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
