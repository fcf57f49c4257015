"""The sdist and the wheel of the project, built without the network, from a copy of what they contain."""

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

EARLIEST = 315_532_800
"""The earliest time of a file in a ZIP archive, 1980 [s since the epoch]."""

_PACKAGES = ("jobs", "quota", "schemas", "conf")
_FILES = ("pyproject.toml", "README.md", "LICENSE")
_BUILD = """
import os, sys
from setuptools import build_meta
os.umask(0o022)
folder = sys.argv[1]  # which the build replaces
build_meta.build_sdist(folder)
build_meta.build_wheel(folder)
"""


def build(checkout: Path, folder: Path, epoch: int) -> Path:
    """Build both into a folder, with this time (seconds since the epoch) for all files; return the wheel."""
    with TemporaryDirectory(prefix="mutation-quota-") as name:
        source = Path(name)
        for package in _PACKAGES:
            shutil.copytree(checkout / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
        for file in _FILES:
            shutil.copyfile(checkout / file, source / file)
        for path in source.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        done = subprocess.run(
            [sys.executable, "-c", _BUILD, folder.resolve()],
            cwd=source,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)},
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise SystemExit(done.stdout)
    (sdist,) = folder.glob("kafka_mutation_quota-*.tar.gz")
    _normalize(sdist, epoch)
    (wheel,) = folder.glob("kafka_mutation_quota-*.whl")
    return wheel


def _normalize(sdist: Path, epoch: int) -> None:
    """Write an sdist again, with this time and without owners."""
    out = io.BytesIO()
    with tarfile.open(sdist) as old, tarfile.open(fileobj=out, mode="w") as new:
        for member in sorted(old.getmembers(), key=lambda info: info.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.pax_headers = {}
            member.mode = 0o755 if member.isdir() else 0o644
            new.addfile(member, old.extractfile(member))
    sdist.write_bytes(gzip.compress(out.getvalue(), mtime=epoch))
