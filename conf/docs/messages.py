"""The file of the schemas of Kafka's messages, from the jar of Kafka's clients: names, types and versions."""

import json
from pathlib import Path
from typing import Any

from quota.wire.schemas import read_release, read_schemas

JARS = Path(__file__).resolve().parents[2] / ".jars" / "broker"


def messages_text(jars: Path = JARS) -> str:
    """Return the release, and the schemas of the messages between clients and brokers, one a line.

    Descriptions are left out. `jars` is a folder with a kafka-clients jar.
    """
    schemas = read_schemas(jars)
    requests = [name for name, schema in schemas.items() if "broker" in schema.get("listeners", ())]
    names = sorted([*requests, *(f"{name.removesuffix('Request')}Response" for name in requests)])
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(_without_about(schemas[name]))}" for name in names)
    return f'{{"release": "{read_release(jars)}", "schemas": {{\n{lines}\n}}}}\n'


def _without_about(value: Any) -> Any:  # noqa: ANN401 any JSON
    if isinstance(value, dict):
        return {key: _without_about(member) for key, member in value.items() if key != "about"}
    return list(map(_without_about, value)) if isinstance(value, list) else value
