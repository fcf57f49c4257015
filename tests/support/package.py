"""The package as `make package` builds it, from this checkout and without the network."""

import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

from jobs.spark.packing import pack
from tests.support.checkout import CHECKOUT

_DEADLINE_SECONDS = 180


def build_wheel(folder):
    """Build the wheel from a copy of this checkout, and return its path."""
    for part in ("jobs", "quota", "schemas", "conf"):
        shutil.copytree(CHECKOUT / part, folder / "source" / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / file, folder / "source")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", folder, folder / "source"], check=True, timeout=_DEADLINE_SECONDS)
    (wheel,) = folder.glob("*.whl")
    return wheel


def build_package(wheel, folder):
    """Put what spark-submit takes into a folder: the archive, the program, and the configuration."""
    with mock.patch("jobs.spark.packing._GZIP_LEVEL", 0):  # packed and unpacked in a third of the time
        pack(wheel, folder / "environment.tar.gz", Path(sys.executable).resolve())
    shutil.copy(CHECKOUT / "conf" / "spark" / "submit.py", folder)
    (folder / "conf").mkdir()
    for file in ("spark-defaults.conf", "log4j2.properties", "mutation-quota.toml"):
        shutil.copy(CHECKOUT / "conf" / file, folder / "conf")
    (folder / "jars").symlink_to(CHECKOUT / ".jars" / "spark")
