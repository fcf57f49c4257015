"""The APIs that clients may use through the gateway, and in which versions."""

from collections.abc import Mapping
from typing import Any

from quota.records.request import OPERATIONS, STRICT_SINCE
from quota.wire.headers import MARK, MARKED_SINCE, TAG
from quota.wire.protocol import ApiKey, Protocol

_MIN_VERSIONS = {
    ApiKey.CREATE_TOPICS: 2,  # older versions have no throttle time; the same applies to DeleteTopics
    ApiKey.DELETE_TOPICS: 1,
}

_WITHHELD = {
    ApiKey.STREAMS_GROUP_HEARTBEAT,  # brokers create the internal topics that it names (KIP-1071)
}

_MAX_REMEMBERED = 64
"""The number of rewritten ApiVersions responses to cache: brokers send all clients the same one, and most connections
begin with it."""


class OfferedApis:
    """The versions of each API that both the gateway and a broker know.

    APIs and versions of requests that create topics unseen are left out.
    """

    def __init__(self, protocol: Protocol, *, permissive: bool) -> None:
        """Choose versions of a protocol."""
        self._protocol = protocol
        self._ranges: dict[int, tuple[int, int]] = {}
        self._rewritten: dict[tuple[int, bytes], bytes] = {}
        for key, api in protocol.apis.items():
            first, last = max(api.min_version, _MIN_VERSIONS.get(key, 0)), api.max_version  # type: ignore[call-overload]
            if not permissive and key in OPERATIONS:
                first = max(first, STRICT_SINCE[OPERATIONS[ApiKey(key)]])
            if first <= last and key not in _WITHHELD:
                self._ranges[key] = (first, last)

    def offers(self, key: int, version: int) -> bool:
        """Return whether clients may send requests of this version."""
        first, last = self._ranges.get(key, (0, -1))
        return first <= version <= last

    def rewrite(self, version: int, body: bytes) -> bytes:
        """Return the body of a broker's ApiVersions response, reduced to what the gateway offers, and marked."""
        known = self._rewritten.get((version, body))
        if known is None:
            codec = self._protocol.response(ApiKey.API_VERSIONS, version)
            response = self._reduced(codec.read(body))
            if version >= MARKED_SINCE:
                response["_tags"] = sorted([*response.get("_tags", []), (TAG, MARK)])
            known = codec.write(response)
            if len(self._rewritten) == _MAX_REMEMBERED:
                self._rewritten.clear()
            self._rewritten[version, body] = known
        return known

    def _reduced(self, response: Mapping[str, Any]) -> dict[str, Any]:
        kept = []
        for api in response["apiKeys"]:
            first, last = self._ranges.get(api["apiKey"], (0, -1))
            first, last = max(first, api["minVersion"]), min(last, api["maxVersion"])
            if first <= last:
                if (
                    api["apiKey"] == ApiKey.PRODUCE
                ):  # brokers advertise v0, or librdkafka does not compress (KAFKA-18659)
                    first = api["minVersion"]
                kept.append({**api, "minVersion": first, "maxVersion": last})
        return {**response, "apiKeys": kept}
