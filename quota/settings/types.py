"""The base of all sections, and the types of values that they share."""

import ipaddress
import re
import tomllib
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from quota.settings.principals import PrincipalRules
from quota.text import TOPIC_NAME, parse_zone


class Section(BaseModel):
    """A section of the settings. Unknown keys are errors; pydantic's errors show no values, which may be secrets."""

    # Spark workers import settings for type annotations only; deferring the validators saves each of them 27 ms.
    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True, defer_build=True
    )


def _checked_by(parse: Callable[[str], object]) -> AfterValidator:
    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


def _split(names: object) -> object:
    """Split comma-separated names, as an option or the environment gives a list; it may also stand as in the file."""
    if not isinstance(names, str):
        return names
    if not names.lstrip().startswith("["):
        return [name.strip() for name in names.split(",") if name.strip()]
    try:
        return tomllib.loads(f"names = {names}")["names"]
    except tomllib.TOMLDecodeError:
        raise ValueError('a list in brackets is written as in the file: ["a", "b"]') from None


def _check_pattern(text: str) -> str:
    try:
        re.compile(text.replace("{user}", "").replace("{client_id}", ""))
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return text


_MEMORY, _TOPIC = r"^[1-9][0-9]{0,5}[mg]$", f"^{TOPIC_NAME}$"
_MESSAGE = r"^[^{}]*(\{reason\}[^{}]*)?$"
EXPECTED = {
    _MEMORY: "a size such as 512m or 1g",
    _TOPIC: "1 to 249 letters, digits, dots, underscores and hyphens",
    _MESSAGE: "text with {reason} at most once, and no other braces",
}
"""The patterns of settings in words, for errors."""

MAX_PORT = 65_535
_SERVER = re.compile(r"([A-Za-z_]+://)?(?P<host>\[[^\s\[\]/,]+\]|[^\s\[\]/,:=@]+)(:(?P<port>[0-9]{1,5}))?")
_NUMERIC = re.compile(r"[0-9.]+|.*:.*")  # an IP address, and no host name
_HOST = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")


def _check_servers(servers: str) -> str:
    for server in servers.split(",") if servers else ():
        match = _SERVER.fullmatch(server.strip())
        if match is None or not _is_host(match["host"].strip("[]")):
            raise ValueError(f"{server!r} is not HOST:PORT, such as kafka-1:9092 or [::1]:9092")
        if match["port"] and not 1 <= int(match["port"]) <= MAX_PORT:
            raise ValueError(f"{server!r} has no port from 1 to {MAX_PORT:,}")
    return servers


def _check_address(address: str) -> str:
    if address and not _is_host(address):
        raise ValueError(f"{address!r} is neither an IP address nor a host name")
    return address


def _is_host(host: str) -> bool:
    if not _NUMERIC.fullmatch(host):
        return bool(_HOST.fullmatch(host))
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


Memory = Annotated[str, StringConstraints(pattern=_MEMORY)]
Name = Annotated[str, StringConstraints(min_length=1)]
ServersOrEmpty = Annotated[str, AfterValidator(_check_servers)]
Servers = Annotated[Name, AfterValidator(_check_servers)]
AddressOrEmpty = Annotated[str, AfterValidator(_check_address)]
Address = Annotated[Name, AfterValidator(_check_address)]
Pattern = Annotated[str, AfterValidator(_check_pattern)]
NameList = Annotated[list[Name], BeforeValidator(_split)]
RejectionMessage = Annotated[str, StringConstraints(pattern=_MESSAGE, max_length=1000)]
TopicName = Annotated[str, StringConstraints(pattern=_TOPIC)]
MappingRules = Annotated[Name, _checked_by(PrincipalRules)]
"""Rules in the syntax of `ssl.principal.mapping.rules`."""
TimeZone = Annotated[Name, _checked_by(parse_zone)]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
MAX_SECONDS = 86_400
"""The largest value of most durations in the settings [s]: a day."""
Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS)]
SecondsOrZero = Annotated[float, Field(ge=0, le=MAX_SECONDS)]


def in_bytes(memory: str) -> int:
    """Return a memory setting such as `512m` or `1g` in bytes."""
    return int(memory[:-1]) * {"m": 2**20, "g": 2**30}[memory[-1]]
