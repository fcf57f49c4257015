"""The reference of the settings, and their part of the schema of the Helm chart's values, from their models."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from conf.docs.markdown import code, sentence, table
from quota.settings import Settings
from quota.settings.secrets import SECRET_NAME

CHART_SCHEMA = Path(__file__).parents[1] / "helm" / "values.schema.json"

_SETTINGS = re.compile(r'(^    "settings": \{[^{]*"properties": \{\n).*?(\n      \})', re.DOTALL | re.MULTILINE)
_FOR_PEOPLE = {"title", "default", "description", "format", "writeOnly"}
_NO_SECRET = {"anyOf": [{"pattern": r"[._-](file|location|provider)$"}, {"not": {"pattern": SECRET_NAME}}]}

_UNITS = {"_seconds": "seconds", "_bytes": "bytes", "_chars": "characters"}
READ_BY = {
    "kafka": "all programs that connect to Kafka",
    "target": "`gateway`, `applier`, `QuotaAdminClient`, `quotas push|pull|drift`, "
    "`callback publish-metadata`, `observe snapshot|follow`: the programs that connect to the cluster whose "
    "topics are changed",
    "storage": "`enforce`, `audit`, `run`, `maintain`, and the commands that read the checkpoint or the "
    "tables (`buckets`, `decisions`, `status`, `explain`, `report`, `backtest`, `recommend`); "
    "`broker` and `demo` for a folder of this machine",
    "topics": "all programs that connect to Kafka",
    "quota": "`enforce`, `run`, `demo`, `dashboard`; the commands that replay decisions (`simulate`, `backtest`, "
    "`recommend`, `explain`, `report`), and those that read or change quotas and buckets "
    "(`buckets`, `quotas`, `callback`)",
    "repeats": "`enforce`, `run`, `dashboard`, `simulate`, `backtest`, `recommend`, `report`",
    "enforce": "`enforce`, `run`",
    "audit": "`audit`, `enforce` with `enforce.with_audit`, `run`, `demo`, and `maintain`",
    "applier": "`applier`",
    "gateway": "`gateway`",
    "observe": "`observe`",
    "client": "`QuotaAdminClient`",
    "metrics": "the services: `enforce`, `audit`, `applier`, `gateway`, `observe follow`, "
    "`quotas push --follow`; and `run`",
    "logging": "all programs",
    "dashboard": "`dashboard`, `run`",
    "spark": "the programs that start Spark: `enforce`, `audit`, `buckets list` and `buckets reset --dry-run` without "
    "an audit, `buckets export`, `run`, `demo`",
    "broker": "`broker`, `run`, `demo`; `jars` also `gateway` and `quotas push|pull|drift`",
}
"""The programs that read each section."""

MASKED = "password"


def settings_sections() -> Iterator[str]:
    """Yield the lines of all sections of the settings."""
    schema = Settings.model_json_schema()
    for name, reference in schema["properties"].items():
        section = schema["$defs"][reference["$ref"].rpartition("/")[2]]
        yield from ("", f"### [{name}]", "", sentence(section["description"]), "", f"Read by: {READ_BY[name]}.", "")
        if name == "target":
            first, *_, last = map(code, section["properties"])
            yield f"Its keys are those of [`[kafka]`](#kafka) from {first} to {last}."
            continue
        head = ("setting", "default", "values", "description")
        yield from table(head, (_row(name, key, field) for key, field in section["properties"].items()))


def _row(section: str, key: str, field: Mapping[str, Any]) -> tuple[str, ...]:
    unit = next((unit for suffix, unit in _UNITS.items() if key.endswith(suffix)), "")
    values = ", ".join(filter(None, (_type(field), unit, _allowed(field))))
    return code(f"{section}.{key}"), _default(field["default"]), values, sentence(field["description"])


def _type(field: Mapping[str, Any]) -> str:
    """Return the type of a setting; empty if its default and values show it."""
    kind: str = field["type"]
    if kind == "array":
        return "list"
    if kind == "object":
        return f"table of {_type(field['additionalProperties']) or field['additionalProperties']['type']}s"
    return "secret" if field.get("format") == MASKED else ""


def _default(value: object) -> str:
    if isinstance(value, bool):
        return code(str(value).lower())
    if isinstance(value, int | float):
        return code(str(value))
    if not value:
        return "empty"
    return code(str(value))


def _allowed(field: Mapping[str, Any]) -> str:
    if field.get("type") == "object":
        return _allowed(field["additionalProperties"])
    if "enum" in field:
        return ", ".join(code(value) if value else "empty" for value in field["enum"])
    if "pattern" in field:
        return code(field["pattern"])
    smallest, above, largest = (field.get(name) for name in ("minimum", "exclusiveMinimum", "maximum"))
    if above is not None:
        return f"above {above:,}, up to {largest:,}"
    if smallest is not None:
        return f"{smallest:,} to {largest:,}"
    return "not empty" if field.get("minLength") else ""


def chart_schema() -> str:
    """Return the chart's schema with the current settings, a section in each line.

    Settings become a ConfigMap, so the value of a secret can only be the path of its file (`file:/path`).
    """
    schema = Settings.model_json_schema()
    lines = []
    for name, reference in schema["properties"].items():
        keys = schema["$defs"][reference["$ref"].rpartition("/")[2]]["properties"]
        properties = {key: _without_secrets(field) for key, field in keys.items()}
        section = {"type": "object", "additionalProperties": False, "properties": properties}
        lines.append(f"        {json.dumps(name)}: {json.dumps(section)}")
    text = CHART_SCHEMA.read_text(encoding="utf-8")
    return _SETTINGS.sub(lambda match: match[1] + ",\n".join(lines) + match[2], text)


def _without_secrets(field: Mapping[str, Any]) -> dict[str, Any]:
    schema = {name: value for name, value in field.items() if name not in _FOR_PEOPLE}
    if field.get("format") == MASKED:
        schema["pattern"] = "^(file:.*)?$"
    if field["type"] == "object":
        schema["propertyNames"] = {**field["propertyNames"], **_NO_SECRET}
    return schema
