"""The package as `make package` builds it, from this checkout and without the network."""

import shutil
import sys
from pathlib import Path
from unittest import mock

from conf.release.distributions import EARLIEST, build
from conf.release.packing import pack
from tests.support.checkout import CHECKOUT


def build_wheel(folder):
    """Build the wheel from a copy of this checkout, and return its path."""
    return build(CHECKOUT, folder, EARLIEST)


def build_package(wheel, folder):
    """Put what spark-submit takes into a folder: the archive, the program, and the configuration."""
    with mock.patch("conf.release.packing._GZIP_LEVEL", 0):  # packed and unpacked in a third of the time
        pack(wheel, folder / "environment.tar.gz", Path(sys.executable).resolve())
    shutil.copy(CHECKOUT / "conf" / "spark" / "submit.py", folder)
    (folder / "conf").mkdir()
    for file in ("spark-defaults.conf", "log4j2.properties", "mutation-quota.toml"):
        shutil.copy(CHECKOUT / "conf" / file, folder / "conf")
    (folder / "jars").symlink_to(CHECKOUT / ".jars" / "spark")
