"""The quota file: a declarative YAML file of all quotas, whose errors name the line and the column.

The documents of `quotas describe -o yaml` and `-o json`, whose entries have an `entity`, are such files, too.
"""

import math
import re
from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec
import yaml
from msgspec import UNSET, UnsetType

from quota.errors import BadInput
from quota.records.entity import QuotaEntity
from quota.records.quota import read_number
from quota.records.quota_log import QUOTA_CONFIGS, QuotaRecord
from quota.text import format_time

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_MAX_DEPTH = 10
_OPTIONS = (*QUOTA_CONFIGS, "comment")
_EFFECTIVE_AT = "effective_at"
_NUMBERS = ("controller_mutation_rate", "controller_mutation_burst")
_INTEGER = re.compile(r"[1-9][0-9]{0,9}")
_EXPECTED = {
    "controller_mutation_rate": "a finite number above 0",
    "controller_mutation_burst": "a finite number above 0",
    "max_debt_ms": "a whole number of milliseconds above 0",
    "shadow": "true or false",
    "comment": "text",
    _EFFECTIVE_AT: "a time in epoch ms",
}
_NULL = "tag:yaml.org,2002:null"
_KEYS = ("user", "user-defaults", "client", "client-defaults", *_OPTIONS)

_DESCRIBED_KEYS = ("entity", *_EXPECTED, "since")


class _Mark(Protocol):
    """A position in a file, counted from 0."""

    line: int
    column: int


def read_quota_file(content: bytes, name: str) -> list[QuotaRecord]:
    """Parse a quota file.

    Args:
        content: the file's bytes.
        name: the file's name in errors.

    Raises:
        BadInput: the file is invalid; the message names the file, the line and the column.
    """
    try:
        text = content.decode("utf-8-sig")
        _check_depth(text, name)
        document = yaml.compose(text, Loader=_Loader)
    except UnicodeDecodeError as error:
        raise BadInput(f"{name}: not UTF-8 (byte 0x{content[error.start]:02x} at {error.start})") from None
    except yaml.MarkedYAMLError as error:
        reason = error.problem or error.context or "cannot be read"
        raise _error(name, error.problem_mark or error.context_mark, f"not YAML: {reason}") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{name}: not YAML: {' '.join(str(error).split())}") from None
    if document is None:
        raise BadInput(f"{name}: empty; write 'quotas: []' for no quotas")
    fields = _mapping(document, name, ("quotas",))
    if "quotas" not in fields:
        raise _error(name, document.start_mark, "quotas: missing")
    return list(_records(fields["quotas"], name))


def write_quota_file(records: Iterable[QuotaRecord]) -> str:
    """Return the quota file that sets the quotas of these records and no others."""
    entries = []
    for record in records:
        entry: dict[str, object] = {}
        for part, key in ((record.entity.user, "user"), (record.entity.client_id, "client")):
            if part is None:
                entry[f"{key}-defaults"] = True
            elif part is not UNSET:
                entry[key] = part
        options = {option: getattr(record, option) for option in _OPTIONS}
        entries.append(entry | {option: value for option, value in options.items() if value not in (None, False)})
    return str(yaml.dump({"quotas": entries}, Dumper=_Dumper, sort_keys=False, allow_unicode=True))


def _check_depth(text: str, name: str) -> None:
    """Check the depth of a file: the composer recurses without a limit, and would crash on a deep one.

    Raises:
        BadInput: the file is nested too deep.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise _error(name, event.start_mark, "nested too deeply")


def _records(node: yaml.Node, name: str) -> Iterator[QuotaRecord]:
    if not isinstance(node, yaml.SequenceNode):
        raise _error(name, node.start_mark, "quotas: expected a list")
    seen: dict[tuple[QuotaEntity, int | None], int] = {}
    for entry in node.value:
        record = _described(entry, name) if _has_entity(entry) else _record(entry, name)
        line = entry.start_mark.line + 1
        key = record.entity, record.effective_at
        if key in seen:
            raise _error(name, entry.start_mark, already_given(record, seen[key]))
        seen[key] = line
        yield record


def already_given(record: QuotaRecord, line: int) -> str:
    """Return the error for a quota that is given in an earlier line, too."""
    then = "" if record.effective_at is None else f" for {format_time(record.effective_at)}"
    return f"{record.entity} has a quota{then} already, in line {line}"


def _has_entity(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode) and any(key.value == "entity" for key, _ in node.value)


def _described(node: yaml.Node, name: str) -> QuotaRecord:
    """Parse an entry as `quotas describe` prints it; a null counts as absent, except in the entity."""
    fields = {key: each for key, each in _mapping(node, name, _DESCRIBED_KEYS).items() if each.tag != _NULL}
    if "entity" not in fields:
        raise _error(name, node.start_mark, "entity: missing")
    entity = _mapping(fields["entity"], name, ("user", "client-id"))
    parts = {key: None if each.tag == _NULL else _name(each, key, name) for key, each in entity.items()}
    if not parts:
        raise _error(name, fields["entity"].start_mark, "entity: expected user, client-id or both")
    if "controller_mutation_rate" not in fields and _EFFECTIVE_AT not in fields:
        raise _error(
            name, node.start_mark, "controller_mutation_rate: missing; only a change with effective_at may remove one"
        )
    values = {"controller_mutation_rate": None, **_options(fields, name)}
    return msgspec.convert({"entity": parts, **values}, QuotaRecord)


def _record(node: yaml.Node, name: str) -> QuotaRecord:
    fields = _mapping(node, name, _KEYS)
    parts = (_part(fields, "user", name), _part(fields, "client", name))
    if parts == (UNSET, UNSET):
        raise _error(
            name, node.start_mark, "no entity: give user or user-defaults, client or client-defaults, or one of each"
        )
    if "controller_mutation_rate" not in fields:
        raise _error(name, node.start_mark, "controller_mutation_rate: missing")
    return msgspec.convert({"entity": QuotaEntity(*parts), **_options(fields, name)}, QuotaRecord)


def _options(fields: dict[str, yaml.Node], name: str) -> dict[str, object]:
    """Return the values of an entry's options, and the time of a scheduled change."""
    options = {option: _value(fields[option], name, option) for option in _EXPECTED if option in fields}
    for option, value in options.items():
        _check_option(option, value, fields[option], name)
    return options


def _check_option(option: str, value: object, node: yaml.Node, name: str) -> None:
    expected = _EXPECTED[option]
    try:
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            raise _error(name, node.start_mark, f"{option}: expected {expected}, got {node.value!r}")
        msgspec.convert({"entity": {"user": "-"}, "controller_mutation_rate": 1, option: value}, QuotaRecord)
    except msgspec.ValidationError:
        raise _error(name, node.start_mark, f"{option}: expected {expected}, got {node.value!r}") from None


def _part(fields: dict[str, yaml.Node], kind: str, name: str) -> str | UnsetType | None:
    named, default = fields.get(kind), fields.get(f"{kind}-defaults")
    if default is not None:
        if named is not None:
            raise _error(name, default.start_mark, f"{kind} and {kind}-defaults are mutually exclusive")
        if _scalar(default, name, f"{kind}-defaults") is not True:
            raise _error(name, default.start_mark, f"{kind}-defaults: expected true, got {default.value!r}")
        return None
    if named is None:
        return UNSET
    if _scalar(named, name, kind) in (None, ""):
        raise _error(name, named.start_mark, f"{kind}: the name is empty; use {kind}-defaults: true for the default")
    return _name(named, kind, name)


def _name(node: yaml.Node, kind: str, name: str) -> str:
    value = _scalar(node, name, kind)
    if not isinstance(value, str):
        raise _error(name, node.start_mark, f"{kind}: expected text, got {node.value}; put it in quotes")
    if not value:
        raise _error(name, node.start_mark, f"{kind}: the name is empty; null is the default")
    return value


def _mapping(node: yaml.Node, name: str, known: tuple[str, ...]) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        raise _error(name, node.start_mark, f"expected keys and values ({', '.join(known)})")
    fields: dict[str, yaml.Node] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _error(name, key.start_mark, f"expected a key ({', '.join(known)})")
        if key.value not in known:
            raise _error(name, key.start_mark, f"unknown key {key.value!r}; known are {', '.join(known)}")
        if key.value in fields:
            raise _error(name, key.start_mark, f"{key.value} is given twice")
        fields[key.value] = value
    return fields


def _value(node: yaml.Node, name: str, option: str) -> object:
    """Return the value of an option. Numbers are decimal: YAML 1.1 would read 010 as 8 and 1:30 as 90."""
    value = _scalar(node, name, option)
    plain = isinstance(node, yaml.ScalarNode) and not node.style and not isinstance(value, bool)
    if plain and option in _NUMBERS:
        return read_number(node.value)
    if plain and option == "max_debt_ms":
        return int(node.value) if _INTEGER.fullmatch(node.value) else None
    return value


def _scalar(node: yaml.Node, name: str, key: str) -> object:
    if not isinstance(node, yaml.ScalarNode):
        raise _error(name, node.start_mark, f"{key}: expected a single value")
    try:
        return yaml.constructor.SafeConstructor().construct_object(node)
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError):
        raise _error(name, node.start_mark, f"{key}: {node.value!r} cannot be read") from None


def _error(name: str, mark: _Mark | None, reason: str) -> BadInput:
    where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    return BadInput(f"{where}: {reason}")
