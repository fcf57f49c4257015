"""Files that are there as a whole, or not at all."""

import errno
import os
from pathlib import Path

import pytest

from jobs.storage.whole_file import write_whole


def names(folder):
    return [each.name for each in folder.iterdir()]


def test_what_is_there_is_replaced(tmp_path):
    (tmp_path / "a").write_text("old")
    write_whole(tmp_path / "a", "néw")
    assert (tmp_path / "a").read_text(encoding="utf-8") == "néw"
    assert names(tmp_path) == ["a"]


def test_what_has_to_be_new_replaces_nothing(tmp_path):
    write_whole(tmp_path / "a", "first", new=True)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "a", "second", new=True)
    assert (tmp_path / "a").read_text() == "first"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("new", [False, True])
def test_of_what_cannot_be_written_whole_there_is_nothing(tmp_path, monkeypatch, new):
    def full(self, *_, **__):
        self.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "a", "whole", new=new)
    assert names(tmp_path) == []
