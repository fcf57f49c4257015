"""The schemas of Kafka's messages, from a kafka-clients jar, or from the file of them that a wheel contains."""

import json
import re
import zipfile
from pathlib import Path
from typing import Any

from quota.errors import BadInput

Schema = dict[str, Any]
"""A message's schema, or a field's: JSON as described in `clients/src/main/resources/common/message/README.md`."""

MESSAGES = Path(__file__).with_name("messages.json")
"""The file, which is written when a wheel is built: the release, and the schemas by name."""

_FOLDER = "common/message/"
_RELEASE = "kafka/kafka-version.properties"
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*')  # a string, which stays, or a comment


def read_schemas(jar: Path) -> dict[str, Schema]:
    """Return the schemas by the names of their messages, of a kafka-clients jar, or of the one in a folder."""
    path = _find(jar)
    schemas = {}
    for name, text in _read(path, _FOLDER, ".json").items():
        try:
            schema = json.loads(_COMMENT.sub(r"\1", text))
        except json.JSONDecodeError as error:
            raise BadInput(f"{path}: {name} is not JSON ({error}); use another copy of the jar") from None
        if not (isinstance(schema, dict) and {"name", "type", "validVersions"} <= schema.keys()):
            raise BadInput(f"{path}: {name} is not a schema of a message; use another copy of the jar")
        schemas[schema["name"]] = schema
    if not schemas:
        raise BadInput(f"{path} has no {_FOLDER}*.json; name a kafka-clients jar")
    return schemas


def read_release(jar: Path) -> str:
    """Return the Kafka release of a jar, or of the jar in a folder, such as `4.2.1`."""
    path = _find(jar)
    for text in _read(path, _RELEASE, "").values():
        release = re.search(r"^version=(\S+)", text, re.MULTILINE)
        if release:
            return release[1]
    raise BadInput(f"{path} has no {_RELEASE} with a version; name a kafka-clients jar")


def write_messages(jar: Path, file: Path) -> None:
    """Write the schemas of the messages between clients and brokers of a jar, without their descriptions."""
    schemas = read_schemas(jar)
    requests = [schema for schema in schemas.values() if "broker" in schema.get("listeners", ())]
    names = [
        name for request in requests for name in (request["name"], f"{request['name'].removesuffix('Request')}Response")
    ]
    kept = {name: _without_about(schemas[name]) for name in sorted(names)}
    file.write_text(json.dumps({"release": read_release(jar), "schemas": kept}, separators=(",", ":")))


def read_messages() -> tuple[str, dict[str, Schema]]:
    """Return the release and the schemas of the file."""
    messages = json.loads(MESSAGES.read_bytes())
    return messages["release"], messages["schemas"]


def _without_about(value: Any) -> Any:  # noqa: ANN401 any JSON
    if isinstance(value, dict):
        return {key: _without_about(member) for key, member in value.items() if key != "about"}
    return list(map(_without_about, value)) if isinstance(value, list) else value


def _find(path: Path) -> Path:
    if not path.is_dir():
        return path
    jars = sorted(path.glob("kafka-clients-*.jar"))
    if len(jars) != 1:
        raise BadInput(f"{path} has {len(jars)} jars kafka-clients-*.jar instead of one")
    return jars[0]


def _read(jar: Path, prefix: str, suffix: str) -> dict[str, str]:
    try:
        with zipfile.ZipFile(jar) as archive:
            names = [name for name in archive.namelist() if name.startswith(prefix) and name.endswith(suffix)]
            return {name: archive.read(name).decode() for name in names}
    except OSError as error:
        raise BadInput(f"{jar} cannot be read: {error.strerror}") from None
    except (zipfile.BadZipFile, UnicodeDecodeError):
        raise BadInput(f"{jar} is not a jar, or is damaged; name a kafka-clients jar") from None
