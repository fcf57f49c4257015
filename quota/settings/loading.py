"""All settings, with defaults that work; validated when loaded, an unknown key is an error.

The nearer one wins: `--set section.key=value`, then `MUTATION_QUOTA__SECTION__KEY` in the
environment (also `KAFKA_BOOTSTRAP_SERVERS`), then the file, then the default.
"""

import difflib
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from quota.errors import BadInput
from quota.settings.model import Settings
from quota.settings.secrets import MASK, is_secret, shown

DEFAULT_FILE = Path("conf/mutation-quota.toml")
ENV_PREFIX = "MUTATION_QUOTA__"
ENV_BOOTSTRAP_SERVERS = "KAFKA_BOOTSTRAP_SERVERS"

_TABLES = {("spark", "conf"), ("quota", "callback_configs"), ("storage", "options")}
"""Settings that take keys of any name, each with a text."""

_WITH_SECRETS = {"kafka", "target", "storage"}
"""Sections with settings whose values nobody may see."""


def load_settings(
    overrides: Iterable[str] = (),
    file: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    with_default_file: bool = True,
) -> Settings:
    """Load settings from a file, the environment and `section.key=value` overrides.

    Args:
        overrides: the values of `--set`.
        file: a TOML file that has to exist; without it `conf/mutation-quota.toml` is read where there is one.
        environment: the process's environment.
        with_default_file: whether that one is read.

    Raises:
        BadInput: with one line that names the key, the value and where it came from.
    """
    layered: dict[str, Any] = {}
    origins: dict[_Path, str] = {}
    for origin, path, value in (
        *(_from_file(file) if file or with_default_file else ()),
        *_from_environment(environment),
        *_from_options(overrides),
    ):
        _check_known(path, origin)
        keys = layered
        for part in path[:-1]:
            keys = keys.setdefault(part, {})
        keys[path[-1]] = value
        origins[path] = origin
    try:
        return Settings.model_validate(layered)
    except ValidationError as error:
        first = error.errors()[0]
        path = tuple(str(part) for part in first["loc"])
        # What is said of a whole section came from any of its keys.
        origin = next(origins[known] for known in origins if known[: len(path)] == path[: len(known)])
        reason = first["msg"][0].lower() + first["msg"][1:]
        # What is wrong with a whole section, its reason names.
        got = "" if isinstance(first["input"], dict) else f", got {shown('.'.join(path), first['input'])!r}"
        raise BadInput(f"{'.'.join(path)}: {reason}{got} ({origin})") from None


_Path = tuple[str, ...]  # section, key; in a table also the name in it
_Entry = tuple[str, _Path, Any]  # origin, path, value


def _from_file(file: Path | None) -> Iterator[_Entry]:
    path = file or DEFAULT_FILE
    try:
        sections = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        if file is None:
            return
        raise BadInput(f"{path}: no such file") from None
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not TOML: {error}") from None
    for section, keys in sections.items():
        if not isinstance(keys, dict):
            raise BadInput(f"{path}: {section} is no [section]")
        _check_known((section,), str(path))
        for key, value in keys.items():
            if (section, key) in _TABLES and isinstance(value, dict):
                yield from ((str(path), (section, key, name), _as_text(each)) for name, each in value.items())
            else:
                yield str(path), (section, key), value


def _from_environment(environment: Mapping[str, str]) -> Iterator[_Entry]:
    if servers := environment.get(ENV_BOOTSTRAP_SERVERS):
        yield ENV_BOOTSTRAP_SERVERS, ("kafka", "bootstrap_servers"), servers
    for name, value in environment.items():
        if name.startswith(ENV_PREFIX):
            section, _, key = name.removeprefix(ENV_PREFIX).partition("__")
            yield name, (section.lower(), key.lower()), value


def _from_options(overrides: Iterable[str]) -> Iterator[_Entry]:
    for override in overrides:
        name, equals, value = override.partition("=")
        section, dot, key = name.strip().partition(".")
        if not (equals and dot and key):
            raise BadInput(f"--set {_said(override)}: expected section.key=value")
        table, dot, entry = key.partition(".")
        path = (section, table, entry) if dot and (section, table) in _TABLES else (section, key)
        yield f"--set {_said(override)}", path, value


def _said(override: str) -> str:
    """An override as it may be printed, also where it is no setting."""
    name, equals, _ = override.partition("=")
    if not is_secret(name):
        return override
    return f"{name}={MASK}" if equals else MASK


def _as_text(value: object) -> object:
    """What is in such a table is text; TOML's true and 5 say what they mean."""
    return str(value).lower() if isinstance(value, bool | int | float) else value


def _check_known(path: _Path, origin: str) -> None:
    if path[:2] in _TABLES:
        if not all(path[2:3]) or len(path) == 2:  # noqa: PLR2004 the table itself
            name = ".".join(path[:2])
            raise BadInput(f"{name} takes its entries one by one, as in {name}.NAME=VALUE ({origin})")
        return
    sections = {section: type(keys).model_fields for section, keys in Settings()}
    known = {(section,) for section in sections} | {(section, key) for section in sections for key in sections[section]}
    if path not in known:
        names = sorted(".".join(each) for each in known if len(each) == len(path))
        nearest = difflib.get_close_matches(".".join(path), names, n=1, cutoff=0.0)[0]
        if nearest.partition(".")[0] in _WITH_SECRETS:  # a misspelled name may not look like a secret's
            origin = origin.partition("=")[0]
        raise BadInput(f"unknown setting {'.'.join(path)} ({origin}): did you mean {nearest}?")
