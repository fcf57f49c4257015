"""Generates the reference of the records from their JSON Schemas."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conf.docs.json_schemas import record_schemas
from conf.docs.markdown import code, sentence, table

_LARGE = {2**31 - 1, 2**15 - 1, 253_402_300_799_999}
"""Bounds that come from types only, and are not printed."""


def record_sections() -> dict[str, str]:
    """Return the generated section of each record, by the name of its schema."""
    return {name: "\n".join(_record(schema)) for name, schema in record_schemas().items()}


def _record(schema: Mapping[str, Any]) -> Iterator[str]:
    definitions = schema["$defs"]
    kinds = [kind["$ref"].rpartition("/")[2] for kind in schema.get("oneOf", ())]
    if not kinds:
        yield from _fields(schema, definitions)
    for name in kinds:
        definition = definitions[name]
        yield from ("", f"**{definition['title']}.** {sentence(definition['description'])}", "")
        yield from _fields(definition, definitions)


def _fields(record: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[str]:
    head = ("field", "type", "", "meaning")
    yield from table(head, _rows(record, definitions))


def _rows(record: Mapping[str, Any], definitions: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, ...]]:
    required = set(record.get("required", ()))
    for name, field in record["properties"].items():
        kind, inner, several = _type(field, definitions)
        yield code(within + name), kind, _presence(name, field, required), sentence(field.get("description", ""))
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
        return "required"
    default = field.get("default")
    if default is None or default in ([], {}):
        return "optional"
    return f"default {code(str(default).lower() if isinstance(default, bool) else str(default))}"
