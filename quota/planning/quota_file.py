"""The quota file: the records of all quotas, as a YAML or JSON document with a list `quotas`, or as JSON lines."""

import codecs
import re
from collections.abc import Collection, Hashable, Iterable, Iterator
from pathlib import PurePath
from typing import Any

import msgspec
import yaml

from quota.errors import BadInput, BadRecord
from quota.records import codec
from quota.records.entity import QuotaEntity
from quota.records.quota_log import RATE_CONFIG, QuotaRecord
from quota.text import format_time

_YAML = (".yaml", ".yml")
_JSON_LINES = (".jsonl", ".ndjson")
_DOCUMENT = re.compile(rb"""\{\s*["']?quotas\b""")
"""The beginning of a document in JSON, or in YAML's notation like it."""
_JSON = re.compile(rb'\s*\{\s*"')
"""The beginning of a document in JSON."""

_MAX_DEPTH = 10


class DescribedQuota(QuotaRecord, frozen=True):
    """A quota in the output of `quotas describe`, which is a quota file: the record that sets it, and since when."""

    since: int | None = None
    """The time from which the quota has been in force, epoch ms; ignored in a file."""


class QuotaFile(msgspec.Struct, frozen=True):
    """A quota file, and the output of `quotas describe`."""

    quotas: list[QuotaRecord]
    """The quotas in force, and after them the scheduled changes, which have an `effective_at`."""


_KEYS = {field.encode_name for field in msgspec.structs.fields(DescribedQuota)} - {"altered_configs", "cancelled"}
_ENTITY_KEYS = {field.encode_name for field in msgspec.structs.fields(QuotaEntity)}

_record_decoder = msgspec.json.Decoder(QuotaRecord)
_file_decoder = msgspec.json.Decoder(QuotaFile)
_yaml_decoder = msgspec.json.Decoder(QuotaFile, strict=False)
"""Reads numbers, true and false from text, where a field is no text."""
_object_decoder = msgspec.json.Decoder(dict[str, Any])


def is_json_lines(content: bytes, name: str) -> bool:
    """Return whether a file holds JSON lines: by its suffix if that says so, or else by its content.

    JSON lines are empty or begin with a brace, and are no document with `quotas`.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix in _YAML or suffix in _JSON_LINES:
        return suffix in _JSON_LINES
    text = content.removeprefix(codecs.BOM_UTF8).lstrip()
    return not text or (text.startswith(b"{") and not _DOCUMENT.match(text))


def read_quota_file(content: bytes, name: str) -> list[QuotaRecord]:
    """Parse a quota file: one quota for each entity, and at most one scheduled change for each entity and time."""
    try:
        return list(_records(_lines(content) if is_json_lines(content, name) else _document(content)))
    except BadRecord as error:
        raise BadInput(f"{name}: {error}") from None


def write_quota_file(records: Iterable[QuotaRecord]) -> str:
    """Return the quota file that sets the quotas of these records and no others."""
    return msgspec.yaml.encode(QuotaFile(list(records))).decode()


def _records(entries: Iterable[tuple[str, QuotaRecord]]) -> Iterator[QuotaRecord]:
    seen: dict[tuple[QuotaEntity, int | None], str] = {}
    for where, record in entries:
        if record.quota is None and record.effective_at is None:
            raise BadRecord(f"{where}: {RATE_CONFIG}: null, but only a change with effective_at may remove a quota")
        key = record.entity, record.effective_at
        if key in seen:
            then = "" if record.effective_at is None else f" for {format_time(record.effective_at)}"
            raise BadRecord(f"{where}: {record.entity} has a quota{then} already, in {seen[key]}")
        seen[key] = where
        yield record


def _lines(content: bytes) -> Iterator[tuple[str, QuotaRecord]]:
    lines = content.removeprefix(codecs.BOM_UTF8).split(b"\n")
    if not any(map(bytes.strip, lines)):
        raise BadRecord("empty; for no quotas, write 'quotas: []' to a YAML file")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"line {number}"
            try:
                _check_entry("", codec.decode(line, _object_decoder))
                yield where, codec.decode(line, _record_decoder)
            except BadRecord as error:
                raise BadRecord(f"{where}: {error}") from None


def _document(content: bytes) -> Iterator[tuple[str, QuotaRecord]]:
    text = content.removeprefix(codecs.BOM_UTF8)
    is_json = bool(_JSON.match(text))
    document = codec.decode(text, _object_decoder) if is_json else _read_yaml(text)
    if document is None:
        raise BadRecord("empty; write 'quotas: []' for no quotas")
    if isinstance(document, dict):
        _check_keys("", document, {"quotas"})
        entries = document.get("quotas")
        for number, entry in enumerate(entries if isinstance(entries, list) else ()):
            _check_entry(f"quotas[{number}].", entry)
    elif isinstance(document, list):
        raise BadRecord("a list; write it below a line 'quotas:'")
    quotas = codec.decode(codec.encode(document), _file_decoder if is_json else _yaml_decoder).quotas
    return ((f"quotas[{number}]", record) for number, record in enumerate(quotas))


def _check_entry(path: str, entry: object) -> None:
    """Check the keys of an entry: an unknown one is probably misspelled, and the quota log would ignore it."""
    if isinstance(entry, dict):
        _check_keys(path, entry, _KEYS)
        if isinstance(entity := entry.get("entity"), dict):
            _check_keys(f"{path}entity.", entity, _ENTITY_KEYS)


def _check_keys(path: str, mapping: dict[Any, Any], known: Collection[str]) -> None:
    for key in mapping:
        if key not in known:
            raise BadRecord(f"{path}{key}: unknown key; known are {', '.join(sorted(known))}")


def _read_yaml(content: bytes) -> Any:  # noqa: ANN401 what JSON can represent
    """Parse a document in YAML of lists, mappings, text and null."""
    codec.check_text(content)
    depth = 0
    try:
        for event in yaml.parse(content, _Loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH:
                raise BadRecord("nested too deeply")
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1  # type: ignore[union-attr]
                raise BadRecord(f"line {line}: aliases are not supported; write the value again")
        return yaml.load(content, _Loader)  # noqa: S506 it constructs no other types
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise BadRecord(f"{where}not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise BadRecord(f"not YAML: {' '.join(str(error).split())}") from None


class _Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]
    """Leaves all scalars but null text, so that names such as yes, 010 and 1:30 stay what they are."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001 FBT002
        """Return a mapping without keys that are given twice."""
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        if len(mapping) < len(node.value):
            keys = [key.value for key, _ in node.value]
            twice = next((key for key in keys if keys.count(key) > 1), "null")  # which has several forms
            raise yaml.constructor.ConstructorError(None, None, f"{twice} is given twice", node.start_mark)
        return mapping


_Loader.add_implicit_resolver("null", re.compile(r"(~|null|)\Z"), ("~", "n", ""))
_Loader.add_constructor("null", lambda _loader, _node: None)
