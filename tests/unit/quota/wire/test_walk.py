"""The offset of a field in a message that arrives in pieces."""

import pytest

from quota.wire.message_codec import MessageCodec
from quota.wire.primitives import Malformed
from quota.wire.walk import Walk

ELEMENT = [{"name": "N", "type": "int32", "versions": "0+"}, {"name": "S", "type": "string", "versions": "0+"}]
OPTIONAL = {"type": "Element", "versions": "0+", "nullableVersions": "0+", "fields": ELEMENT[:1]}
FIELDS = [
    {"name": "A", "type": "int16", "versions": "0+"},
    {"name": "B", "type": "string", "versions": "0+", "nullableVersions": "0+"},
    {"name": "C", "type": "[]int64", "versions": "0+", "nullableVersions": "0+"},
    {"name": "D", "type": "[]Element", "versions": "0+", "fields": ELEMENT},
    {"name": "E", "type": "records", "versions": "0+", "nullableVersions": "0+"},
    {"name": "F", "type": "[]string", "versions": "0+"},
    {"name": "O", "versions": "1+", "ignorable": True, **OPTIONAL},
    {"name": "Last", "type": "int32", "versions": "0+"},
    {"name": "Tagged", "type": "int32", "versions": "1+", "taggedVersions": "1+", "tag": 0, "ignorable": True},
]
SCHEMA = {"name": "PingResponse", "flexibleVersions": "1+", "fields": FIELDS}

ORDINARY = {
    "a": 7,
    "b": "bee",
    "c": [1, 2, 3],
    "d": [{"n": 1, "s": "x" * 300}, {"n": 2, "s": ""}],
    "e": bytes(1000),
    "f": ["", "eff"],
    "o": {"n": 1},
    "last": 9,
}
EMPTY = {"a": 0, "b": None, "c": None, "d": [], "e": None, "f": [], "o": None, "last": 9}


@pytest.mark.parametrize("message", [ORDINARY, EMPTY], ids=["ordinary", "empty"])
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("size", [1, 2, 3, 100, 10_000])
def test_the_offset_of_a_field_is_found_whatever_the_pieces(message, version, size):
    """`last` has four bytes, and one for no tags comes after it in version 1."""
    codec = MessageCodec(SCHEMA, version)
    data = codec.write(message)
    plan, rest = codec.split("last")
    walk, offset = Walk(plan, len(data)), None
    for at in range(0, len(data), size):
        end = walk.feed(data[at : at + size])
        if end is not None:
            offset = at + end
            break
    assert offset == len(data) - 4 - version
    assert rest.read(data, offset) == {"last": 9, **({"tagged": 0} if version else {})}


@pytest.mark.parametrize(
    "data",
    [
        b"\0\1" + b"\x85\x01",  # a string of 132 bytes
        b"\0\1" + b"\1" + b"\xff\xff\xff\xff\x07",  # an array of 2^31 - 2
        b"\0\1" + b"\1\1\xff\xff\x7f",  # structs
        b"\0\1" + b"\xff\xff\xff\xff\xff\1",  # a length of six bytes
    ],
)
def test_a_message_that_claims_more_than_it_has_is_malformed(data):
    plan, _ = MessageCodec(SCHEMA, 1).split("last")
    with pytest.raises(Malformed):
        Walk(plan, 40).feed(data + bytes(40))
