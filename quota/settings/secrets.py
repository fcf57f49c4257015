"""Which settings and properties are secrets, by their names, and what is printed in their place."""

import re

MASK = "********"
"""What is printed in place of a secret."""

SECRET_NAME = r"(?i)pass|secret|token|credential|jaas|(access|account|private|sas|keystore)[._-]?key"  # noqa: S105
"""Names of secrets, as a regular expression that Java understands as well."""

_PLACE = re.compile(r"(?i)[._-](file|location)$")
_name = re.compile(rf"{SECRET_NAME}|^storage[.]options")


def is_secret(name: str) -> bool:
    """Whether the value under a name is not to be seen; where a file is that holds it may be."""
    return _name.search(name) is not None and _PLACE.search(name) is None


def shown(name: str, value: object) -> object:
    """A value as it may be printed."""
    if isinstance(value, dict):
        return {key: shown(f"{name}.{key}", each) for key, each in value.items()}
    return MASK if is_secret(name) else value
