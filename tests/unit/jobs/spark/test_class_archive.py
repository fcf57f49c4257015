"""The class archives that a JVM uses or writes."""

import os
import shlex
from pathlib import Path

import pytest

from jobs.spark.class_archive import ClassArchive


@pytest.fixture
def jars(tmp_path):
    files = [tmp_path / "a.jar", tmp_path / "b.jar"]
    for file in files:
        file.write_bytes(b"jar")
    return files


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "archives" / "of jobs"


def written_by(archive):
    """Return the file into which the JVM is to write the archive."""
    (option,) = [option for option in shlex.split(archive.options()) if "ArchiveClassesAtExit=" in option]
    return Path(option.partition("=")[2])


def write(archive):
    written_by(archive).write_bytes(b"classes")


def test_the_next_run_uses_the_archive_of_the_last_one(folder, jars):
    first = ClassArchive(folder, "enforce", jars)
    write(first)
    assert list(folder.glob("*.jsa")) == []  # a run that begins meanwhile uses no half of it
    first.save(ended=True)
    (kept,) = folder.iterdir()
    assert f"-XX:SharedArchiveFile={kept}" in shlex.split(ClassArchive(folder, "enforce", jars).options())
    assert "ArchiveClassesAtExit" not in ClassArchive(folder, "enforce", jars).options()


@pytest.mark.parametrize(("writes", "ended"), [(True, False), (False, True)], ids=["killed", "it wrote nothing"])
def test_a_jvm_without_a_whole_archive_leaves_nothing(folder, jars, writes, ended):
    archive = ClassArchive(folder, "enforce", jars)
    if writes:
        write(archive)
    archive.save(ended=ended)
    assert not folder.exists() or list(folder.iterdir()) == []


def test_an_archive_of_different_jars_replaces_the_old_one(folder, jars):
    old = ClassArchive(folder, "enforce", jars)
    write(old)
    old.save(ended=True)
    others = ClassArchive(folder, "audit", jars)
    write(others)
    others.save(ended=True)
    (before,) = folder.glob("enforce-*.jsa")
    os.utime(jars[0], (1, 1))
    new = ClassArchive(folder, "enforce", jars)
    write(new)
    new.save(ended=True)
    (after,) = folder.glob("enforce-*.jsa")
    assert after != before
    assert len(list(folder.glob("audit-*.jsa"))) == 1


def test_a_folder_that_cannot_be_created_costs_only_the_archive(tmp_path, jars, caplog):
    (tmp_path / "file").touch()
    assert ClassArchive(tmp_path / "file" / "archives", "enforce", jars).options() == ""
    assert "no class archive" in caplog.text
