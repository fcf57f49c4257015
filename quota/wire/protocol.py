"""Kafka's protocol as one release defines it: its APIs, their versions, and a codec for each message."""

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Self

from quota.wire.message_codec import MessageCodec
from quota.wire.primitives import Malformed
from quota.wire.schemas import MESSAGES, Schema, Versions, read_release, read_schemas


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
    DESCRIBE_PRODUCERS = 61
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
        messages = json.loads(MESSAGES.read_bytes())
        return cls(messages["schemas"], messages["release"])

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
