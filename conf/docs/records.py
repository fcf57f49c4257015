"""JSON Schemas of the records of all topics, generated from their structs for `schemas/json`, and their reference.

The description of a field is its docstring in the struct.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec
from msgspec.inspect import DictType, ListType, NoneType, Type, UnionType, VarTupleType, multi_type_info, type_info
from msgspec.inspect import StructType as StructInfo

from conf.docs.markdown import code, sentence, table
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision
from quota.records.entity import QuotaEntity
from quota.records.quota_log import CallbackRecord, ClusterRecord, QuotaRecord, ResetRecord
from quota.records.request import MutationRequest
from quota.records.result import MutationResult
from schemas.columns import meanings

_LARGE = {2**63 - 1, 2**31 - 1, 2**15 - 1, 253_402_300_799_999}
"""Bounds that come from types only, and are not printed."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_REF = "#/$defs/{name}"

_RECORDS: dict[str, type[msgspec.Struct]] = {
    "request": MutationRequest,
    "decision": Decision,
    "dead-letter": DeadLetter,
    "result": MutationResult,
}

_WRITTEN_BY_OTHERS = {"request"}
"""The records written by others, whose optional fields may be null; our own omit absent fields."""

_QUOTA_LOG: dict[str, type[msgspec.Struct]] = {
    "entity": QuotaRecord,
    "bucket": ResetRecord,
    "callback": CallbackRecord,
    "cluster": ClusterRecord,
}
"""The records of the quota topic, by the field that only they have."""

_SAME_FIELDS: dict[type[msgspec.Struct], type[msgspec.Struct]] = {
    MutationResult: Decision,
    **dict.fromkeys([ResetRecord, CallbackRecord, ClusterRecord], QuotaRecord),
}
"""The record that describes the fields which another has, too."""


def record_schemas() -> dict[str, dict[str, Any]]:
    """Return all schemas, by the names of their files without the suffix."""
    schemas = {name: _schema(name, record) for name, record in _RECORDS.items()}
    return schemas | {"quota-log": _quota_log()}


def schema_files() -> dict[str, str]:
    """Return the content of each schema's file, by its name."""
    schemas = record_schemas().items()
    return {f"{name}.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in schemas}


def _schema(name: str, record: type[msgspec.Struct]) -> dict[str, Any]:
    definitions = _definitions(record, written_by_others=name in _WRITTEN_BY_OTHERS)
    return {**_head(name), **definitions.pop(record.__name__), "$defs": definitions}


def _quota_log() -> dict[str, Any]:
    """Return the schema of a record of one kind; the fields of the other kinds are absent or null."""
    kinds = [
        {
            "$ref": _REF.format(name=record.__name__),
            "properties": {other: {"type": "null"} for other in _QUOTA_LOG if other != field},
        }
        for field, record in _QUOTA_LOG.items()
    ]
    return {
        **_head("quota-log"),
        "title": "QuotaLogRecord",
        "description": "One change: of quotas, buckets, the callback or the cluster. "
        "A record without a value removes the quota of the entity in its key.",
        "type": "object",
        "oneOf": kinds,
        "$defs": _definitions(*_QUOTA_LOG.values(), written_by_others=True),
    }


def _head(name: str) -> dict[str, Any]:
    return {"$schema": _DIALECT, "$id": f"urn:kafka-mutation-quota:{name}"}


def _definitions(*records: type[msgspec.Struct], written_by_others: bool) -> dict[str, dict[str, Any]]:
    """Return the definitions of records and of all types in them, by the names of the types."""
    _, definitions = msgspec.json.schema_components(records, ref_template=_REF)
    structs = {struct.__name__: struct for info in multi_type_info(records) for struct in _structs(info)}
    for name, definition in definitions.items():
        if "description" in definition:
            definition["description"] = to_sentence(definition["description"])
        if name in structs:
            if written_by_others:
                _allow_nulls(definition["properties"], structs[name])
            _describe(definition["properties"], structs[name])
    if QuotaEntity.__name__ in definitions:
        definitions[QuotaEntity.__name__]["minProperties"] = 1
    return dict(sorted(definitions.items()))


def _structs(info: Type) -> Iterator[type[msgspec.Struct]]:
    match info:
        case StructInfo(cls=cls, fields=fields):
            yield cls
            for field in fields:
                yield from _structs(field.type)
        case UnionType(types=types):
            for member in types:
                yield from _structs(member)
        case ListType(item_type=item) | VarTupleType(item_type=item):
            yield from _structs(item)
        case DictType(value_type=value):
            yield from _structs(value)
        case _:
            pass


def _allow_nulls(properties: dict[str, dict[str, Any]], struct: type[msgspec.Struct]) -> None:
    """Let the optional fields of a struct be null."""
    for field in cast("StructInfo", type_info(struct)).fields:
        members = field.type.types if isinstance(field.type, UnionType) else ()
        if not field.required and not any(isinstance(member, NoneType) for member in members):
            present = properties[field.encode_name]
            default = {"default": present.pop("default")} if "default" in present else {}
            properties[field.encode_name] = {"anyOf": [present, {"type": "null"}], **default}


def _describe(properties: dict[str, dict[str, Any]], struct: type[msgspec.Struct]) -> None:
    described = (meanings(_SAME_FIELDS[struct]) if struct in _SAME_FIELDS else {}) | meanings(struct)
    for field in msgspec.structs.fields(struct):
        properties[field.encode_name]["description"] = to_sentence(described[field.name])


def to_sentence(text: str) -> str:
    """Return a docstring or a comment as one line, with JSON's null for None."""
    sentence = " ".join(text.split()).replace("`", "").replace("None", "null")
    return sentence[0].upper() + sentence[1:]


Row: TypeAlias = tuple[str, str, str]
"""A field of a record: its path, its type and presence, and its meaning."""


def record_sections() -> dict[str, str]:
    """Return the generated section of each record, by the name of its schema."""
    described: dict[Row, str] = {}
    return {name: "\n".join(_record(name, schema, described)) for name, schema in record_schemas().items()}


def field_meanings(name: str) -> dict[str, str]:
    """Return the meaning of each field of a record, by its path; of all kinds of a record of the quota log."""
    schema = record_schemas()[name]
    rows = (row for record in _kinds(schema) for row in _rows(record, schema["$defs"]))
    return {path: meaning for path, _, meaning in reversed(list(rows))}


def _kinds(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [schema["$defs"][kind["$ref"].rpartition("/")[2]] for kind in schema.get("oneOf", ())] or [schema]


def _record(name: str, schema: Mapping[str, Any], described: dict[Row, str]) -> Iterator[str]:
    for record in _kinds(schema):
        if record is not schema:
            yield from ("", f"**{record['title']}.** {sentence(record['description'])}", "")
        rows = list(_rows(record, schema["$defs"]))
        yield from table(
            ("field", "type", "meaning"),
            ((code(path), kind, sentence(text)) for path, kind, text in rows if (path, kind, text) not in described),
        )
        for other in dict.fromkeys(described[row] for row in rows if row in described):
            same = {path for path, *_ in (row for row in rows if described.get(row) == other)}
            outer = (path for path in same if path.rpartition(".")[0].removesuffix("[]") not in same)
            fields = ", ".join(map(code, sorted(outer, key=[path for path, *_ in rows].index)))
            yield from ("", f"As {'above' if other == name else f'in a [{other}](#{other})'}: {fields}.")
        described |= {row: name for row in rows if row not in described}


def _rows(record: Mapping[str, Any], definitions: Mapping[str, Any], within: str = "") -> Iterator[Row]:
    required = set(record.get("required", ()))
    for name, field in record["properties"].items():
        kind, inner, several = _type(field, definitions)
        presence = _presence(name, field, required)
        shown = f"{kind.removesuffix(' or null')}, {presence}" if presence else kind
        yield within + name, shown, field.get("description", "")
        if inner is not None:
            yield from _rows(inner, definitions, f"{within}{name}{'[]' if several else ''}.")


def _type(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> tuple[str, Mapping[str, Any] | None, bool]:
    """Return a field's type in words, the struct in it, and whether it is a list of structs."""
    if "$ref" in field:
        return _type(definitions[field["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in field:
        return _one_of(field["anyOf"], definitions)
    if "enum" in field:
        return ", ".join(code(str(value)) for value in field["enum"]), None, False
    if field.get("type") == "array":
        words, inner, _ = _type(field["items"], definitions)
        return f"list of {_plural(words)}", inner, True
    if field.get("additionalProperties"):
        return f"object of {_plural(_type(field['additionalProperties'], definitions)[0])}", None, False
    return field.get("type", "any") + _range(field), field if "properties" in field else None, False


def _one_of(
    kinds: Sequence[Mapping[str, Any]], definitions: Mapping[str, Any]
) -> tuple[str, Mapping[str, Any] | None, bool]:
    types = [_type(kind, definitions) for kind in kinds]
    inner = next((struct for _, struct, _ in types if struct is not None), None)
    return " or ".join(words for words, _, _ in types), inner, any(several for _, _, several in types)


def _plural(words: str) -> str:
    """Return the plural of a type in words, without its range."""
    kind, *inner = words.partition(",")[0].split(" ", 1)
    return " ".join((kind if kind.endswith("s") else f"{kind}s", *inner))


def _range(field: Mapping[str, Any]) -> str:
    smallest, largest = field.get("minimum"), field.get("maximum")
    if smallest is not None and largest is not None and largest not in _LARGE:
        return f", {smallest:,} to {largest:,}"
    return f", at least {smallest:,}" if smallest is not None and smallest >= 0 else ""


def _presence(name: str, field: Mapping[str, Any], required: set[str]) -> str:
    if name in required:
        return ""
    default = field.get("default")
    if default is None or default in ([], {}):
        return "optional"
    return f"default {code(str(default).lower() if isinstance(default, bool) else str(default))}"
