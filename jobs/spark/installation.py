"""Files of the project that are no Python: jars, and the configuration of Spark."""

from pathlib import Path

from quota.errors import BadInput

_PACKAGE = Path(__file__).resolve().parent.parent
_ROOT = _PACKAGE.parent


def conf_file(name: str) -> Path:
    """A file of `conf/`, of which the wheel holds those that the jobs read."""
    installed = _PACKAGE / "conf" / name
    return installed if installed.exists() else _ROOT / "conf" / name


def jars_folder(setting: str) -> Path:
    """The folder of jars that a setting names, relative to the checkout; where there is none, to the current folder.

    Raises:
        BadInput: there are no jars in it.
    """
    root = _ROOT if (_ROOT / "pyproject.toml").exists() else Path.cwd()
    folder = root / setting
    if not any(folder.glob("*.jar")):
        raise BadInput(f"no jars in {folder}; run make jars, or name their folder in the settings")
    return folder
