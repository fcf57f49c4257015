"""Where the jars are that `conf/jvm/pom.xml` names."""

from pathlib import Path

from quota.errors import BadInput

_CHECKOUT = Path(__file__).resolve().parents[1]


def jars_folder(setting: str) -> Path:
    """The folder that a setting names, relative to the checkout.

    Raises:
        BadInput: there are no jars in it.
    """
    folder = _CHECKOUT / setting
    if not any(folder.glob("*.jar")):
        raise BadInput(f"no jars in {folder}; run make jars, or name their folder in the settings")
    return folder
