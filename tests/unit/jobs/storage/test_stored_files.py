"""Files of a storage root read without a JVM, by a path and by a URL."""

import errno
import io
import os
import sys
from pathlib import Path

import pytest

from jobs.storage.stored_files import LocalFiles, check_store, stored_files
from jobs.storage.whole_file import read_whole, write_whole
from quota.errors import BadInput, MutationQuotaError
from tests.support.deployment import with_sections
from tests.support.full_disk import fill_disk
from tests.support.object_store import rejecting_store, store_settings


@pytest.fixture(params=["path", "URL"])
def files(request, settings, tmp_path):
    if request.param == "URL":  # a local one stands for an object store, and is not allowed in the settings
        settings = with_sections(settings, storage={"root": f"file://{tmp_path}"})
    return stored_files(settings)


def test_the_text_of_a_file_is_read(files, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "metadata").write_text('{"id": "ὄ"}', encoding="utf-8")

    assert files.read("checkpoints/metadata") == '{"id": "ὄ"}'


def test_a_missing_file_has_no_text_and_a_missing_folder_no_names(files):
    assert files.read("deployment.json") is None
    assert files.names("checkpoints/enforce/v3/offsets") == []


def test_the_names_in_a_folder_are_sorted(files, tmp_path):
    for name in ("9", "10", ".10.crc"):
        (tmp_path / "offsets").mkdir(exist_ok=True)
        (tmp_path / "offsets" / name).write_text("v1")
    (tmp_path / "offsets" / "inner").mkdir()
    (tmp_path / "offsets" / "inner" / "11").write_text("v1")

    assert files.names("offsets") == [".10.crc", "10", "9", "inner"]


def test_a_folder_in_the_place_of_a_file_is_named(settings, tmp_path):
    (tmp_path / "deployment.json").mkdir()

    with pytest.raises(MutationQuotaError, match=r"deployment\.json cannot be read: Is a directory; check that "):
        stored_files(settings).read("deployment.json")


@pytest.fixture
def local(tmp_path):
    return LocalFiles(str(tmp_path))


def test_a_file_is_replaced_with_the_checksum_that_hadoop_wrote(local, tmp_path):
    for text in ("old", "new"):
        local.write("leases/enforce/1", text)
        assert local.read("leases/enforce/1") == text
        (tmp_path / "leases/enforce/.1.crc").touch()
    local.write("leases/enforce/1", "newest")
    assert local.names("leases/enforce") == ["1"]


def test_files_and_folders_are_removed_if_they_exist(local):
    local.create("sources/0/0", "text")
    assert local.create("metadata", "text")
    assert not local.create("metadata", "other")
    assert local.read("metadata") == "text"
    for path in ("sources", "metadata", "nothing"):
        local.remove(path)
    assert local.names("") == []


def names(folder):
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("has_hard_links", [True, False])
def test_a_new_file_replaces_nothing(tmp_path, monkeypatch, has_hard_links):
    def reject(*_):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    if not has_hard_links:
        monkeypatch.setattr(Path, "hardlink_to", reject)
    write_whole(tmp_path / "a", "first", new=True)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "a", "second", new=True)
    assert (tmp_path / "a").read_text() == "first"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("new", [False, True])
def test_a_full_disk_leaves_no_partial_file_and_the_old_one(tmp_path, monkeypatch, new):
    (tmp_path / "old").write_text("an old one")
    fill_disk(monkeypatch)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / ("a" if new else "old"), "whole", new=new)
    assert (names(tmp_path), (tmp_path / "old").read_text()) == (["old"], "an old one")


def test_a_file_that_is_read_may_be_standard_input(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"quotas: []")))
    assert read_whole(Path("-")) == b"quotas: []"
    (tmp_path / "quotas.yaml").write_bytes(b"quotas: [1]")
    assert read_whole(tmp_path / "quotas.yaml") == b"quotas: [1]"
    with pytest.raises(BadInput, match=r"none\.yaml: No such file or directory"):
        read_whole(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (403, "InvalidAccessKeyId", ": InvalidAccessKeyId: No; see"),
        (301, "PermanentRedirect", "Received redirect without LOCATION"),
    ],
)
def test_a_rejection_by_the_store_has_its_reason_and_the_page(status, code, reason):
    with rejecting_store() as store:
        store.answer = (status, code)
        with pytest.raises(MutationQuotaError) as raised:
            check_store(store_settings(store.server_port))
    message = str(raised.value)
    assert message.startswith("s3a://bucket/root/deployment/1 cannot be read: ")
    assert message.endswith("; see docs/how-to/platforms/s3.md#errors")
    assert reason in message
    assert "\n" not in message
    assert "\x1b" not in message
    assert "<" not in message
    assert "the-secret" not in message
