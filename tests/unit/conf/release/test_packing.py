"""The archive of the environment: its content, without what Spark provides."""

import tarfile
import zipfile
from pathlib import Path

import pytest

from conf.release.packing import pack
from quota.errors import BadInput

INTERPRETER = Path("/opt/python/bin/python3.11")


@pytest.fixture
def packed(tmp_path):
    """Pack a project with these requirements; return the members by name, and the archive."""

    def _pack(*requirements):
        wheel, archive = tmp_path / "project.whl", tmp_path / "environment.tar.gz"
        with zipfile.ZipFile(wheel, "w") as files:
            needs = "".join(f"Requires-Dist: {requirement}\n" for requirement in requirements)
            files.writestr("project-1.dist-info/METADATA", f"Name: project\nVersion: 1\n{needs}")
            files.writestr("project.py", "")
        pack(wheel, archive, INTERPRETER)
        with tarfile.open(archive) as tar:
            return {member.name: member for member in tar}, archive

    return _pack


def test_the_archive_has_the_project_and_its_dependencies_and_no_more(packed):
    members, archive = packed("typer>=0.1", 'pytest; extra == "dev"', 'delta_spark; extra == "spark-submit"')
    parts = {part for name in members for part in Path(name).parts}
    assert {"project.py", "typer", "delta"} <= parts
    assert {"shellingham", "importlib_metadata"} <= parts  # what typer and delta-spark need
    assert not {"pytest", "pyspark", "py4j", "__pycache__", ".."} & parts
    assert members["bin/python"].linkname == str(INTERPRETER)
    with tarfile.open(archive) as tar:
        assert tar.extractfile("pyvenv.cfg").read().startswith(b"home = /opt/python/bin\n")


def test_a_missing_package_is_named(packed):
    with pytest.raises(BadInput, match="no-such, which project needs, is not installed here; run make setup"):
        packed("no_such[extra]>=1; python_version > '3'")
