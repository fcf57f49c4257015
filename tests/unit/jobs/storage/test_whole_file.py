"""Files that are read as a whole, and atomic file writes."""

import errno
import io
import os
import sys
from pathlib import Path

import pytest

from jobs.storage.whole_file import read_whole, write_whole
from quota.errors import BadInput
from tests.support.full_disk import fill_disk


def names(folder):
    return [each.name for each in folder.iterdir()]


def test_a_new_file_replaces_nothing(tmp_path):
    write_whole(tmp_path / "a", "first", new=True)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "a", "second", new=True)
    assert (tmp_path / "a").read_text() == "first"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("new", [False, True])
def test_a_full_disk_leaves_no_partial_file(tmp_path, monkeypatch, new):
    fill_disk(monkeypatch)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "a", "whole", new=new)
    assert names(tmp_path) == []


def test_a_file_system_without_hard_links_is_supported(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    write_whole(tmp_path / "a", "first", new=True)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "a", "second", new=True)
    assert (tmp_path / "a").read_text() == "first"
    assert names(tmp_path) == ["a"]


def test_a_file_that_is_read_may_be_standard_input(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"quotas: []")))
    assert read_whole(Path("-")) == b"quotas: []"
    (tmp_path / "quotas.yaml").write_bytes(b"quotas: [1]")
    assert read_whole(tmp_path / "quotas.yaml") == b"quotas: [1]"
    with pytest.raises(BadInput, match=r"none\.yaml: No such file or directory"):
        read_whole(tmp_path / "none.yaml")
