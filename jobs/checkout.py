"""Files of the checkout that are no Python: jars, and the configuration of Spark."""

from pathlib import Path

from quota.errors import BadInput

_ROOT = Path(__file__).resolve().parents[1]


def conf_file(name: str) -> Path:
    """A file of `conf/`."""
    return _ROOT / "conf" / name


def jars_folder(setting: str) -> Path:
    """The folder of jars that a setting names, relative to the checkout.

    Raises:
        BadInput: there are no jars in it.
    """
    folder = _ROOT / setting
    if not any(folder.glob("*.jar")):
        raise BadInput(f"no jars in {folder}; run make jars, or name their folder in the settings")
    return folder
