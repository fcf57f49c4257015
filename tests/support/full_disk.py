"""A disk without space."""

from pathlib import Path


def fill_disk(monkeypatch):
    """Let each write to a file fail with ENOSPC; the files themselves are still created."""
    opened = Path.open

    def full(self, mode="r", *args, **kwargs):
        file = opened(self, mode, *args, **kwargs)
        if mode != "wb":
            return file
        file.close()
        return opened(Path("/dev/full"), mode)

    monkeypatch.setattr(Path, "open", full)
