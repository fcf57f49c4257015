"""The part of the schema of the Helm chart's values that is about settings, generated from their models.

Settings become a ConfigMap. So the value of a secret can only be the path of its file (`file:/path`).
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conf.docs.settings_page import MASKED
from quota.settings import Settings
from quota.settings.secrets import SECRET_NAME

CHART_SCHEMA = Path(__file__).parents[1] / "helm" / "values.schema.json"

_SETTINGS = re.compile(r'(^    "settings": \{[^{]*"properties": \{\n).*?(\n      \})', re.DOTALL | re.MULTILINE)
_FOR_PEOPLE = {"title", "default", "description", "format", "writeOnly"}
_NO_SECRET = {"anyOf": [{"pattern": r"[._-](file|location|provider)$"}, {"not": {"pattern": SECRET_NAME}}]}


def chart_schema() -> str:
    """Return the chart's schema with the current settings, a section in each line."""
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
