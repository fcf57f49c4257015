"""How a gateway is recognized: by a tagged field in its ApiVersions responses, which other clients ignore.

Clients may send ApiVersions before they log in, so it needs no rights.
"""

from struct import Struct

from quota.wire.api_keys import ApiKey

MARKED_SINCE = 3
"""The first version of ApiVersions with tagged fields."""

TAG = 10_599
"""The tag of the field; Kafka's own begin at 0."""

MARK = b"mutation-quota gateway"
"""The field's bytes."""

_HEAD = Struct(">hhihB")  # key, version, correlation id, no client-id, no tagged fields
_SIZE = Struct(">i")


def marked_request() -> bytes:
    """Return an ApiVersions request, as it is sent; a response that contains `MARK` is a gateway's."""
    names = b"".join(bytes([len(text) + 1]) + text for text in (b"mutation-quota", b"0"))
    request = _HEAD.pack(ApiKey.API_VERSIONS, MARKED_SINCE, 0, -1, 0) + names + b"\0"
    return _SIZE.pack(len(request)) + request
