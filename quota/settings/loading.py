"""Loading of settings from a file, the environment and options.

In order of precedence: `--set section.key=value`, `MUTATION_QUOTA__SECTION__KEY` in the environment (also
`KAFKA_BOOTSTRAP_SERVERS`), the file, the default.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from quota.errors import BadInput
from quota.settings.model import Settings, sections
from quota.settings.secrets import MASK, is_secret, mask_logins, mask_secrets
from quota.settings.types import EXPECTED

DEFAULT_FILE = Path("conf/mutation-quota.toml")
ENV_PREFIX = "MUTATION_QUOTA__"
ENV_BOOTSTRAP_SERVERS = "KAFKA_BOOTSTRAP_SERVERS"

_EXPECTED = {"int": "an integer", "float": "a number", "bool": "true or false", "string": "a string", "list": "a list"}
"""The expected value, by the first word of the type of pydantic's error."""

_LIMITS = {"gt": "above", "ge": "of at least", "le": "of at most"}
"""The expected number, by the name of the limit in the context of pydantic's error."""

_WRONG_TYPES = {"type", "parsing", "parsing_size", "from_float"}
"""The other words of the type of such an error."""

_KEY_OF_TABLE = "[key]"
"""The last part of the location of pydantic's error in the name of a table's entry."""

_SECTIONS_WITH_SECRETS = {"kafka", "target", "storage"}

_QUOTED = re.compile(r"""^(["'])(.*)\1$""")
"""A key in quotes, as TOML needs them for a name with dots."""

_Path: TypeAlias = tuple[str, ...]  # section, key; in a table also the entry's name
_Entry: TypeAlias = tuple[str, _Path, Any]  # origin, path, value


@dataclass(frozen=True, slots=True)
class Override:
    """A setting given by an option other than `--set`."""

    text: str
    """As `--set` takes it: `section.key=value`."""
    option: str
    """The option, as errors and listings name it; with its file if it names one."""


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings, and the origins of those that were given."""

    settings: Settings
    origins: Mapping[_Path, str]
    """By section and key: a file, a variable of the environment, an option, or `--set` with its value (masked if
    secret)."""
    file: Path | None
    """The file that was read; None if there is none."""


def load_settings(
    overrides: Iterable[str | Override] = (),
    file: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    with_default_file: bool = True,
) -> Settings:
    """Load settings from a file, the environment and `section.key=value` overrides.

    Args:
        overrides: the values of `--set`, and settings given by other options.
        file: a TOML file, which must exist; by default `conf/mutation-quota.toml` if it exists.
        environment: the process's environment.
        with_default_file: whether to read the default file if no file is given.

    Raises:
        BadInput: an invalid setting; one line with the key, the value (masked if secret) and its origin.
    """
    return load_with_origins(overrides, file, environment, with_default_file=with_default_file).settings


def load_with_origins(
    overrides: Iterable[str | Override] = (),
    file: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    with_default_file: bool = True,
) -> LoadedSettings:
    """Load settings as `load_settings` does, with the origin of each value."""
    values: dict[str, Any] = {}
    origins: dict[_Path, str] = {}
    for origin, path, value in (
        *(_from_file(file) if file or with_default_file else ()),
        *_from_environment(environment),
        *_from_options(overrides),
    ):
        _check_known(path, origin)
        keys = values
        for part in path[:-1]:
            keys = keys.setdefault(part, {})
        keys[path[-1]] = value
        origins[path] = origin
    default = DEFAULT_FILE if with_default_file and DEFAULT_FILE.exists() else None
    try:
        return LoadedSettings(Settings.model_validate(values), origins, file or default)
    except ValidationError as error:
        raise _invalid(error, origins) from None


def _from_file(file: Path | None) -> Iterator[_Entry]:
    path = file or DEFAULT_FILE
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        if file is None:
            return
        raise BadInput(f"{path}: no such file") from None
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not TOML: {error}") from None
    for section, keys in tables.items():
        if not isinstance(keys, dict):
            raise BadInput(f"{path}: {section} is not a [section]")
        _check_known((section,), str(path))
        for key, value in keys.items():
            if _is_table(section, key) and isinstance(value, dict):
                yield from ((str(path), (section, key, name), _to_text(entry)) for name, entry in value.items())
            else:
                yield str(path), (section, key), value


def _from_environment(environment: Mapping[str, str]) -> Iterator[_Entry]:
    if servers := environment.get(ENV_BOOTSTRAP_SERVERS):
        yield ENV_BOOTSTRAP_SERVERS, ("kafka", "bootstrap_servers"), servers
    for name, value in environment.items():
        if name.startswith(ENV_PREFIX):
            section, _, key = name.removeprefix(ENV_PREFIX).partition("__")
            if not (section and key):
                raise BadInput(f"{name}: expected {ENV_PREFIX}SECTION__KEY")
            yield name, (section.lower(), key.lower()), value


def _from_options(overrides: Iterable[str | Override]) -> Iterator[_Entry]:
    for given in overrides:
        override = given.text if isinstance(given, Override) else given
        name, equals, value = override.partition("=")
        section, dot, key = name.strip().partition(".")
        if not (equals and dot and key):
            raise BadInput(f"--set {_masked(override)}: expected section.key=value")
        table, dot, entry = key.partition(".")
        entry = _QUOTED.sub(r"\2", entry)
        path = (section, table, entry) if dot and _is_table(section, table) else (section, key)
        yield given.option if isinstance(given, Override) else f"--set {_masked(override)}", path, value


def _masked(override: str) -> str:
    """Mask an override whose name is a secret's, even if it is malformed, and the logins in the values of others."""
    name, equals, value = override.partition("=")
    if not is_secret(name):
        return f"{name}={mask_logins(value)}" if equals else mask_logins(name)
    return f"{name}={MASK}" if equals else MASK


def _to_text(value: object) -> object:
    """Convert the boolean or number of a table's entry to text; leave other values to validation."""
    return str(value).lower() if isinstance(value, bool | int | float) else value


def _is_table(section: str, key: str) -> bool:
    return sections().get(section, {}).get(key, False)


def _check_known(path: _Path, origin: str) -> None:
    section, keys, entry = path[0], path[1:2], path[2:]
    if keys and _is_table(section, *keys):
        if not entry or not entry[0]:
            name = ".".join(path[:2])
            raise BadInput(f"{name} must be set entry by entry, as in {name}.NAME=VALUE ({origin})")
    elif section not in sections() or not all(key in sections()[section] for key in keys):
        nearest = _nearest(path)
        # A misspelled secret may not look like one.
        if nearest is None or nearest.partition(".")[0] in _SECTIONS_WITH_SECRETS or is_secret(nearest):
            origin = origin.partition("=")[0]
        raise BadInput(f"unknown setting {'.'.join(path)} ({origin}): {_hint(section, nearest)}")


def _nearest(path: _Path) -> str | None:
    """Return the section, or the key of the section, that an unknown one resembles; None if there is none."""
    section = next(iter(difflib.get_close_matches(path[0], sections(), n=1)), None)
    if section is None or len(path) == 1:
        return section
    return next((f"{section}.{key}" for key in difflib.get_close_matches(path[1], sections()[section], n=1)), None)


def _hint(section: str, nearest: str | None) -> str:
    if nearest:
        return f"did you mean {nearest}?"
    if keys := sections().get(section):
        return f"remove it; the keys of [{section}] are {', '.join(sorted(keys))}"
    return f"remove it; the sections are {', '.join(sorted(sections()))}"


def _invalid(error: ValidationError, origins: Mapping[_Path, str]) -> BadInput:
    first = error.errors()[0]
    path = tuple(str(part) for part in first["loc"] if part != _KEY_OF_TABLE)
    reason = _reason(first)
    # An error of a whole section has the origin of a key that it names, or else of any of its keys.
    given = [known for known in origins if known[: len(path)] == path[: len(known)]]
    origin = origins[next((known for known in given if known[-1] in reason), given[0])]
    if first["type"] == "string_too_short" and not first["input"]:
        return BadInput(f"{'.'.join(path)} is empty ({origin})")
    shown = mask_secrets(".".join(path), first["input"])
    # Its reason names what is wrong with the section, or the value.
    got = "" if isinstance(shown, dict) or repr(shown) in reason else f", got {shown!r}"
    return BadInput(f"{'.'.join(path)}: {reason}{got} ({origin})")


def _reason(error: ErrorDetails) -> str:
    """Return what is wrong with a value, in words of this project."""
    context = error.get("ctx", {})
    kind, _, problem = error["type"].partition("_")
    if expected := _EXPECTED.get(kind) if problem in _WRONG_TYPES else None:
        return f"expected {expected}"
    if limit := next((name for name in _LIMITS if name in context), None):
        return f"expected a number {_LIMITS[limit]} {context[limit]:,.15g}"
    if "pattern" in context:
        return f"expected {EXPECTED[context['pattern']]}"
    if error["type"] == "literal_error":
        return f"expected {context['expected']}"
    message = mask_logins(error["msg"].removeprefix("Value error, "))
    return message[0].lower() + message[1:]
