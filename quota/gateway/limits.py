"""The limits of requests that are read whole, and the responses to those above them, which are not carried out."""

from quota.errors import ErrorCode
from quota.gateway.mutations.operations import RESULTS
from quota.wire.headers import RequestHeader
from quota.wire.message_codec import MAX_ELEMENTS, Message
from quota.wire.protocol import ApiKey, Protocol

MAX_REQUEST_BYTES = 8 * 1024 * 1024
"""The maximum size of a request that is read whole."""

_RESULTS = {ApiKey.METADATA: "topics", ApiKey.ALTER_CLIENT_QUOTAS: "entries", **RESULTS}
_IDENTITY = frozenset({"name", "topicId", "entity"})


def above_limit(protocol: Protocol, header: RequestHeader, frame: bytes) -> Message:
    """Return the response to a request that is too large, of which at least the beginning has arrived.

    These responses have an error for each topic or entity. The first one of the request gets it, so that clients report
    it; to find the others the whole request would have to be read.
    """
    error = {
        "errorCode": int(ErrorCode.INVALID_REQUEST),
        "errorMessage": f"the mutation quota gateway takes requests of at most {MAX_REQUEST_BYTES >> 20} MiB with "
        f"{MAX_ELEMENTS:,} elements; nothing was changed, send several smaller requests",
    }
    results = _RESULTS.get(header.api_key)  # type: ignore[call-overload]
    if results is None:
        return error
    request = protocol.request(header.api_key, header.api_version)
    return {**error, results: [{**request.read_first(frame, header.body, _IDENTITY), **error}]}
