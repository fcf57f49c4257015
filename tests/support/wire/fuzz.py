"""Damaged frames for the codec alone: the errors that it raises, and the time of the slowest frame."""

import random
import resource
import time
from dataclasses import dataclass
from pathlib import Path

from quota.wire.headers import RequestHeader, read_request_header, read_response_header, write_request, write_response
from quota.wire.primitives import Malformed
from quota.wire.protocol import Protocol
from quota.wire.schemas import Struct, read_release, read_schemas, struct_of
from tests.support.wire.messages import random_message
from tests.support.wire.mutations import mutated

PARSED = {
    "ApiVersions",
    "CreatePartitions",
    "CreateTopics",
    "DeleteTopics",
    "DescribeCluster",
    "FindCoordinator",
    "Metadata",
    "SaslAuthenticate",
    "SaslHandshake",
}
"""The APIs whose messages a gateway reads; of others it reads headers alone."""

_LENGTH = 4  # bytes in front of a frame


@dataclass(slots=True)
class Fuzzed:
    """The outcomes of damaged frames. Any error except Malformed ends the run."""

    frames: int = 0
    read: int = 0
    rejected: int = 0
    header_alone: int = 0
    """Frames that end within their header, or became those of another API."""
    slowest_us: float = 0.0
    """CPU time of reading the slowest frame, µs."""
    grown_kb: int = 0
    """Growth of the process's peak memory, KB."""


@dataclass(frozen=True, slots=True)
class _Exchange:
    """A request and its response in one version."""

    key: int
    version: int
    structs: tuple[Struct, ...]


def fuzz(jar: Path, seed: int, count: int) -> Fuzzed:
    """Read damaged requests and responses of the APIs in `PARSED`, in all versions in turn."""
    schemas = read_schemas(jar)
    protocol = Protocol(schemas, read_release(jar))
    exchanges = [
        _Exchange(key, version, tuple(struct_of(schemas[api.name + kind], version) for kind in ("Request", "Response")))
        for key, api in protocol.apis.items()
        if api.name in PARSED
        for version in range(api.min_version, api.max_version + 1)
    ]
    chance = random.Random(seed)
    for exchange in exchanges:  # compiles all codecs before the measurement
        _read(protocol, _frame(chance, protocol, exchange, 0)[_LENGTH:], None, Fuzzed())
        _read(protocol, _frame(chance, protocol, exchange, 1)[_LENGTH:], _header(exchange), Fuzzed())
    fuzzed, other = Fuzzed(), b""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(count):
        exchange = exchanges[number // 2 % len(exchanges)]
        whole = _frame(chance, protocol, exchange, number % 2)[_LENGTH:]
        frame, other = mutated(chance, whole, other), whole
        _read(protocol, frame, _header(exchange) if number % 2 else None, fuzzed)
    fuzzed.grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return fuzzed


def _header(exchange: _Exchange) -> RequestHeader:
    return RequestHeader(exchange.key, exchange.version, 7, "client")


def _frame(chance: random.Random, protocol: Protocol, exchange: _Exchange, is_response: int) -> bytes:
    message = random_message(chance, exchange.structs[is_response])
    if is_response:
        body = protocol.response(exchange.key, exchange.version).write(message)
        return write_response(_header(exchange), body, protocol)
    return write_request(_header(exchange), protocol.request(exchange.key, exchange.version).write(message), protocol)


def _read(protocol: Protocol, frame: bytes, request: RequestHeader | None, fuzzed: Fuzzed) -> None:
    """Read the response to a request, or a request."""
    fuzzed.frames += 1
    start = time.process_time_ns()
    try:
        if request is not None:
            begin = read_response_header(frame, request, protocol)
            protocol.response(request.api_key, request.api_version).read(frame, begin)
            fuzzed.read += 1
        else:
            header = read_request_header(frame, protocol)
            if header is None or protocol.apis[header.api_key].name not in PARSED:
                fuzzed.header_alone += 1
            else:
                protocol.request(header.api_key, header.api_version).read(frame, header.body)
                fuzzed.read += 1
    except Malformed:
        fuzzed.rejected += 1
    taken = (time.process_time_ns() - start) / 1000
    fuzzed.slowest_us = max(fuzzed.slowest_us, taken)
