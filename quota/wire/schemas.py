"""The schemas of Kafka's messages, and one version of a message: the fields on the wire, their form and their order.

The schemas are those of a file, which was written from a kafka-clients jar, or of another such jar.
"""

import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from struct import calcsize
from typing import Any

from quota.errors import BadInput

Schema = dict[str, Any]
"""A message's schema, or a field's: JSON as described in `clients/src/main/resources/common/message/README.md`."""

MESSAGES = Path(__file__).with_name("messages.json")
"""The file, which `conf.docs` writes: the release, and the schemas by name, without their descriptions."""

_FOLDER = "common/message/"
_RELEASE = "kafka/kafka-version.properties"
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*')  # a string, which stays, or a comment

FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""The types of fixed width, as the module `struct` writes them."""

_EMPTY: dict[str, Any] = {"bytes": b"", "records": b"", "uuid": bytes(16), "struct": {}}
_NEWEST = 0x7FFF


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


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions; empty if `first` is above `last`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """Read a range such as `none`, `3`, `2-4` or `2+`."""
        if text == "none":
            return cls(0, -1)
        first, separator, last = text.removesuffix("+").partition("-")
        if text.endswith("+"):
            return cls(int(first), _NEWEST)
        return cls(int(first), int(last) if separator else int(first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message in one version."""

    name: str
    """As in Kafka's JSON, such as `numPartitions`."""
    kind: str
    """A type of `FORMATS`, `string`, `bytes`, `records` or `struct`: the field's, or that of its elements."""
    array: bool
    nullable: bool
    compact: bool
    """Whether its lengths are encoded as varints of the length plus 1."""
    default: Any
    """The default in a message; an empty mapping for a struct that is not null."""
    tag: int | None
    struct: "Struct | None"

    @property
    def fixed(self) -> str | None:
        """The format of a field of fixed width."""
        return None if self.array else FORMATS.get(self.kind)

    @property
    def least(self) -> int:
        """The minimum number of bytes of the field."""
        if self.array:
            return 1 if self.compact else 4
        if self.struct is not None and self.nullable:
            return 1
        return self.element_least

    @property
    def element_least(self) -> int:
        """The minimum number of bytes of an element of the array, or of the field if it is not an array."""
        if self.struct is not None:
            return self.struct.least
        if self.kind in FORMATS:
            return calcsize(FORMATS[self.kind])
        if self.compact:
            return 1
        return 2 if self.kind == "string" else 4


@dataclass(frozen=True, slots=True)
class Struct:
    """The fields of a message, or of a struct in it, in one version."""

    fields: tuple[Field, ...]
    """The fields without a tag, in wire order."""
    tagged: tuple[Field, ...]
    """In the order of their tags."""
    barred: tuple[int, ...]
    """The tags of other versions, which Kafka rejects in this one."""
    flexible: bool
    rejected: tuple[Field, ...]
    """The fields that this version does not have, and that a message must not set."""

    @property
    def least(self) -> int:
        """The minimum number of bytes of the struct."""
        return sum(field.least for field in self.fields) + self.flexible


def struct_of(schema: Schema, version: int) -> Struct:
    """Return one version of a message."""
    shared = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())}
    flexible = version in Versions.parse(schema.get("flexibleVersions", "none"))
    return _struct(schema["fields"], shared, version, flexible=flexible)


def _struct(fields: list[Schema], shared: Mapping[str, list[Schema]], version: int, *, flexible: bool) -> Struct:
    present, rejected = [], []
    for schema in fields:
        field = _field(schema, shared, version, flexible=flexible)
        if version in Versions.parse(schema["versions"]):
            present.append(field)
        elif str(schema.get("ignorable", "false")).lower() != "true":
            rejected.append(field)
    tagged = {field.tag: field for field in present if field.tag is not None}
    return Struct(
        fields=tuple(field for field in present if field.tag is None),
        tagged=tuple(tagged[tag] for tag in sorted(tagged)),
        barred=tuple(schema["tag"] for schema in fields if "tag" in schema and schema["tag"] not in tagged),
        flexible=flexible,
        rejected=tuple(rejected),
    )


def _field(schema: Schema, shared: Mapping[str, list[Schema]], version: int, *, flexible: bool) -> Field:
    name, kind = schema["name"], schema["type"]
    array = kind.startswith("[]")
    kind = kind.removeprefix("[]")
    nested = None
    if kind not in FORMATS and kind not in {"string", "bytes", "records"}:
        fields = schema.get("fields") or shared.get(kind)
        if fields is None:
            raise BadInput(f"field {name} is of type {kind}, which is unknown; use a jar of another release of Kafka")
        nested = _struct(fields, shared, version, flexible=flexible)
        kind = "struct"
    return Field(
        name=name[0].lower() + name[1:],
        kind=kind,
        array=array,
        nullable=version in Versions.parse(schema.get("nullableVersions", "none")),
        compact=flexible and version in Versions.parse(schema.get("flexibleVersions", "0+")),
        default=_default(kind, str(schema.get("default", "")), array=array),
        tag=schema["tag"] if version in Versions.parse(schema.get("taggedVersions", "none")) else None,
        struct=nested,
    )


def _default(kind: str, text: str, *, array: bool) -> Any:  # noqa: ANN401 any value of a message
    if text == "null":
        return None
    if array:
        return []
    if kind == "bool":
        return text.lower() == "true"
    if kind == "float64":
        return float(text or 0)
    if kind in _EMPTY:
        return _EMPTY[kind]
    return text if kind == "string" else int(text or "0", 0)
