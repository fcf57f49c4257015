"""The built-in schemas of a few messages, for which no kafka-clients jar is needed: ApiVersions, SASL and ListOffsets.

One version of each, which all brokers since Kafka 2.1 have. Names, types and order of the fields are those of the
schemas in Kafka's jar (`quota.wire.schemas`).
"""

from quota.wire.api_keys import ApiKey
from quota.wire.protocol import Protocol
from quota.wire.schemas import Schema


def _fields(**types: str | list[Schema]) -> list[Schema]:
    """Return the fields of a message or struct by name, each of a type (with `?` if it may be null) or an array."""
    return [_field(name, kind) for name, kind in types.items()]


def _field(name: str, kind: str | list[Schema]) -> Schema:
    if isinstance(kind, list):
        return {"name": name, "versions": "0+", "type": f"[]{name}", "fields": kind}
    nullable = "0+" if kind.endswith("?") else "none"
    return {"name": name, "versions": "0+", "type": kind.removesuffix("?"), "nullableVersions": nullable}


def _api(key: int, name: str, version: int, request: list[Schema], response: list[Schema]) -> dict[str, Schema]:
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
    _api(
        ApiKey.LIST_OFFSETS,
        "ListOffsets",
        4,
        _fields(ReplicaId="int32", IsolationLevel="int8", Topics=_fields(Name="string", Partitions=_REQUESTED)),
        _fields(ThrottleTimeMs="int32", Topics=_fields(Name="string", Partitions=_FOUND)),
    )
    | _api(
        ApiKey.SASL_HANDSHAKE,
        "SaslHandshake",
        1,
        _fields(Mechanism="string"),
        _fields(ErrorCode="int16", Mechanisms="[]string"),
    )
    | _api(ApiKey.API_VERSIONS, "ApiVersions", 0, [], _fields(ErrorCode="int16", ApiKeys=_VERSIONS))
    | _api(
        ApiKey.SASL_AUTHENTICATE,
        "SaslAuthenticate",
        1,
        _fields(AuthBytes="bytes"),
        _fields(ErrorCode="int16", ErrorMessage="string?", AuthBytes="bytes", SessionLifetimeMs="int64"),
    ),
    "2.1",
)
"""ApiVersions v0, SaslHandshake v1, SaslAuthenticate v1 and ListOffsets v4."""
