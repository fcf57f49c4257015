"""Locates the files of the installation that are not Python: jars and Spark's configuration."""

import os
import shutil
from pathlib import Path

from quota.errors import BadInput

_PACKAGE = Path(__file__).resolve().parent.parent
_ROOT = _PACKAGE.parent


def conf_file(name: str) -> Path:
    """Return a file of `conf/`; the wheel contains those that the jobs read."""
    installed = _PACKAGE / "conf" / name
    return installed if installed.exists() else _ROOT / "conf" / name


def java_program() -> Path:
    """Return Java's launcher."""
    home, found = os.environ.get("JAVA_HOME"), shutil.which("java")
    if not (home or found):
        raise BadInput("no java found; install a JDK 17 or newer")
    return Path(home, "bin", "java") if home else Path(str(found))


def spark_jars(folder: str) -> list[Path]:
    """Return the jars of Spark's Kafka connector, in class path order."""
    return sorted(jars_folder(folder, "spark.jars").glob("*.jar"))


def jars_folder(folder: str, setting: str = "broker.jars") -> Path:
    """Return a folder of jars, relative to the checkout, or to the current folder if there is no checkout."""
    root = _ROOT if (_ROOT / "pyproject.toml").exists() else Path.cwd()
    path = root / folder
    if not any(path.glob("*.jar")):
        raise BadInput(f"no jars in {path}; run make jars, or set {setting}")
    return path
