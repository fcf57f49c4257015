"""Secrets: settings and properties of certain names, and logins in values, and the mask printed instead of them."""

import re
from collections.abc import Iterable

MASK = "********"
"""The text printed instead of a secret."""

SECRET_NAME = r"(?i)pass|secret|token|credential|jaas|(access|account|private|sas|keystore|encryption|api)[._-]?key"  # noqa: S105
"""A regular expression for names of secrets, in the syntax that Python and Java share."""

_PATH_NAME = re.compile(r"(?i)[._-](file|location|endpoint[._-]url|function)$")
_SECRET_NAME = re.compile(SECRET_NAME)
_SECRET_TABLES = re.compile(r"^(storage[.](table_)?options|kafka[.](librdkafka|java)|target[.]librdkafka)\b")
_SHORTEST_MASKED = 6  # shorter values are words such as true, and parts of others

_LOGIN = re.compile(r"(?i)\b(https?://)[^\s/?#@]+@|\b([a-z][a-z0-9+.-]*://)[^\s/?#@]*:\S*@")
"""The login of a URL, `user:password@`; of HTTP also a token alone. `abfss://container@account` has none."""

_PARAMETER = re.compile(rf"(?i)((?:^|[?&;,\s])(?=[a-z_])[\w.-]*(?:{SECRET_NAME.removeprefix('(?i)')})[\w.-]*=)[^&;]+")
"""A parameter of a URL or of another text, such as `?token=...` or `;password=...`, up to the next one."""


def is_secret(name: str) -> bool:
    """Return whether a setting or property of this name is a secret; the path of its file and a URL are not."""
    if _SECRET_TABLES.search(name):
        return True
    return _SECRET_NAME.search(name) is not None and _PATH_NAME.search(name) is None


def mask_secrets(name: str, value: object) -> object:
    """Return the value of a setting with its secrets masked."""
    if isinstance(value, dict):
        return {key: mask_secrets(f"{name}.{key}", entry) for key, entry in value.items()}
    if is_secret(name):
        return MASK
    return mask_logins(value) if isinstance(value, str) else value


def mask_logins(text: str) -> str:
    """Return a text with the logins of the URLs in it masked, and parameters whose names are those of secrets."""
    masked = _LOGIN.sub(lambda match: f"{match[1] or match[2]}{MASK}@", text)
    return _PARAMETER.sub(lambda match: f"{match[1]}{MASK}", masked)


def mask_values(text: str, values: Iterable[str]) -> str:
    """Return a text, such as an error of a client, without the values of properties that are all treated as secrets."""
    for value in values:
        if len(value) >= _SHORTEST_MASKED:
            text = text.replace(value, MASK)
    return text
