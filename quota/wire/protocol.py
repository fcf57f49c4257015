"""Kafka's protocol as one release defines it: its APIs, their versions, and a codec for each message.

`BUILTIN` has the few messages for which no kafka-clients jar is needed.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Self

from quota.wire.message_codec import MessageCodec
from quota.wire.primitives import Malformed
from quota.wire.schemas import Schema, Versions, read_messages, read_release, read_schemas


class ApiKey(enum.IntEnum):
    """Keys of Kafka's protocol."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    FIND_COORDINATOR = 10
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_CLUSTER = 60
    LIST_TRANSACTIONS = 66
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    STREAMS_GROUP_HEARTBEAT = 88


Address = tuple[str, int]
"""Host and port of a broker."""


@dataclass(frozen=True, slots=True)
class Api:
    """An API that brokers offer to clients, and its stable versions, from the first to the last."""

    key: int
    name: str
    """Such as `CreateTopics`."""
    min_version: int
    max_version: int
    flexible_since: int | None
    """The first version whose request, and whose request's header, has tagged fields; None if none has."""

    def has(self, version: int) -> bool:
        """Return whether a version is one of the stable ones."""
        return self.min_version <= version <= self.max_version


class Protocol:
    """The messages between clients and brokers. Messages that only controllers accept are not included."""

    def __init__(self, schemas: Mapping[str, Schema], version: str) -> None:
        """Create the protocol of a Kafka release (`version`) from its schemas by name."""
        self.version = version
        requests = (schema for schema in schemas.values() if schema["type"] == "request")
        apis = (_api(schema) for schema in requests if "broker" in schema.get("listeners", ()))
        self.apis: Mapping[int, Api] = MappingProxyType(
            {api.key: api for api in sorted(apis, key=lambda api: api.key) if api.has(api.min_version)}
        )
        self._schemas = schemas
        self._codecs: dict[tuple[str, int, int], MessageCodec] = {}

    @classmethod
    def of_jar(cls, path: Path) -> Self:
        """Read the protocol from a kafka-clients jar, or from a folder with exactly one."""
        return cls(read_schemas(path), read_release(path))

    @classmethod
    def of_messages(cls) -> Self:
        """Read the protocol from the file that is part of the project."""
        release, schemas = read_messages()
        return cls(schemas, release)

    def request(self, key: int, version: int) -> MessageCodec:
        """Return the codec of a request."""
        return self._codec("Request", key, version)

    def response(self, key: int, version: int) -> MessageCodec:
        """Return the codec of a response."""
        return self._codec("Response", key, version)

    def _codec(self, kind: str, key: int, version: int) -> MessageCodec:
        codec = self._codecs.get((kind, key, version))
        if codec is None:
            api = self.apis.get(key)
            if api is None:
                raise Malformed(f"API key {key} is unknown to Kafka {self.version}")
            if not api.has(version):
                raise Malformed(
                    f"{api.name} v{version} is unknown to Kafka {self.version}, "
                    f"which has v{api.min_version} to v{api.max_version}"
                )
            codec = self._codecs[kind, key, version] = MessageCodec(self._schemas[api.name + kind], version)
        return codec


def _api(schema: Schema) -> Api:
    versions = Versions.parse(schema["validVersions"])
    flexible = Versions.parse(schema.get("flexibleVersions", "none"))
    return Api(
        key=schema["apiKey"],
        name=schema["name"].removesuffix("Request"),
        min_version=versions.first,
        max_version=versions.last - bool(schema.get("latestVersionUnstable", False)),
        flexible_since=flexible.first if flexible.last >= 0 else None,
    )


def _fields(**types: str | list[Schema]) -> list[Schema]:
    """Return the fields of a message or struct by name, each of a type (with `?` if it may be null) or an array."""
    return [_field(name, kind) for name, kind in types.items()]


def _field(name: str, kind: str | list[Schema]) -> Schema:
    if isinstance(kind, list):
        return {"name": name, "versions": "0+", "type": f"[]{name}", "fields": kind}
    nullable = "0+" if kind.endswith("?") else "none"
    return {"name": name, "versions": "0+", "type": kind.removesuffix("?"), "nullableVersions": nullable}


def _builtin_api(key: int, name: str, version: int, request: list[Schema], response: list[Schema]) -> dict[str, Schema]:
    common = {"apiKey": key, "validVersions": f"{version}", "flexibleVersions": "none"}
    return {
        f"{name}Request": common
        | {"type": "request", "listeners": ["broker"], "name": f"{name}Request", "fields": request},
        f"{name}Response": common | {"type": "response", "name": f"{name}Response", "fields": response},
    }


_REQUESTED = _fields(PartitionIndex="int32", CurrentLeaderEpoch="int32", Timestamp="int64")
_FOUND = _fields(PartitionIndex="int32", ErrorCode="int16", Timestamp="int64", Offset="int64", LeaderEpoch="int32")
_VERSIONS = _fields(ApiKey="int16", MinVersion="int16", MaxVersion="int16")

BUILTIN = Protocol(
    _builtin_api(
        ApiKey.LIST_OFFSETS,
        "ListOffsets",
        4,
        _fields(ReplicaId="int32", IsolationLevel="int8", Topics=_fields(Name="string", Partitions=_REQUESTED)),
        _fields(ThrottleTimeMs="int32", Topics=_fields(Name="string", Partitions=_FOUND)),
    )
    | _builtin_api(
        ApiKey.SASL_HANDSHAKE,
        "SaslHandshake",
        1,
        _fields(Mechanism="string"),
        _fields(ErrorCode="int16", Mechanisms="[]string"),
    )
    | _builtin_api(ApiKey.API_VERSIONS, "ApiVersions", 0, [], _fields(ErrorCode="int16", ApiKeys=_VERSIONS))
    | _builtin_api(
        ApiKey.SASL_AUTHENTICATE,
        "SaslAuthenticate",
        1,
        _fields(AuthBytes="bytes"),
        _fields(ErrorCode="int16", ErrorMessage="string?", AuthBytes="bytes", SessionLifetimeMs="int64"),
    ),
    "2.1",
)
"""ApiVersions v0, SaslHandshake v1, SaslAuthenticate v1 and ListOffsets v4."""
