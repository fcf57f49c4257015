"""Files of the installation that are not Python: jars and Spark's configuration."""

from pathlib import Path

from quota.errors import BadInput

_PACKAGE = Path(__file__).resolve().parent.parent
_ROOT = _PACKAGE.parent


def conf_file(name: str) -> Path:
    """Return a file of `conf/`; the wheel holds those that the jobs read."""
    installed = _PACKAGE / "conf" / name
    return installed if installed.exists() else _ROOT / "conf" / name


def jars_folder(setting: str) -> Path:
    """Return the folder of jars that a setting names.

    A relative path starts at the checkout, or at the current folder if the package is installed without one.

    Raises:
        BadInput: the folder holds no jars.
    """
    root = _ROOT if (_ROOT / "pyproject.toml").exists() else Path.cwd()
    folder = root / setting
    if not any(folder.glob("*.jar")):
        raise BadInput(f"no jars in {folder}; run make jars, or name their folder in the settings")
    return folder
