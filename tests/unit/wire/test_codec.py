"""Messages of the APIs that a gateway reads: round trips, heads, and arbitrary bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quota.wire.codec import MessageCodec
from quota.wire.primitives import Malformed, Unwritable
from quota.wire.structs import struct_of
from tests.support.wire.fuzz import PARSED, fuzz

NUMBERS = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
}
KINDS = NUMBERS | {
    "bool": st.booleans(),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": st.text(max_size=200),
    "bytes": st.binary(max_size=200),
}
TAGS = st.dictionaries(st.integers(100, 2**31 - 1), st.binary(max_size=9), min_size=1, max_size=2).map(
    lambda tags: sorted(tags.items())
)


def messages(struct):
    """Messages of a struct with all its fields."""
    fields = {field.name: values(field) for field in [*struct.fields, *struct.tagged]}
    optional = {"_tags": TAGS} if struct.flexible else {}
    return st.fixed_dictionaries(fields, optional=optional)


def values(field):
    single = messages(field.struct) if field.struct else KINDS[field.kind]
    value = st.lists(single, max_size=3) if field.array else single
    return st.none() | value if field.nullable else value


@pytest.fixture(scope="module", params=[name + kind for name in sorted(PARSED) for kind in ("Request", "Response")])
def codecs(request, schemas, protocol):
    """A message in all its versions, with what each has on the wire."""
    names = {api.name + kind: api for api in protocol.apis.values() for kind in ("Request", "Response")}
    api, schema = names[request.param], schemas[request.param]
    versions = range(api.min_version, api.max_version + 1)
    return [(MessageCodec(schema, version), messages(struct_of(schema, version))) for version in versions]


@settings(max_examples=8)
@given(data=st.data())
def test_a_written_file_is_read_unchanged(codecs, data):
    """All versions give the same message of the same bytes, and fewer bytes are malformed."""
    for codec, some in codecs:
        message = data.draw(some)
        written = codec.write(message)
        assert codec.read(written) == message
        assert codec.read(b"\1\2\3" + written + b"\1\2\3", at=3) == message
        if written:
            with pytest.raises(Malformed):
                codec.read(written[:-1])


@settings(max_examples=30)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_read_or_malformed(codecs, data):
    for codec, _ in codecs:
        try:
            message = codec.read(data)
        except Malformed:
            continue
        assert codec.read(codec.write(message)) == message


def test_damaged_frames_are_read_or_malformed(jars):
    """Requests and responses with their headers; 100,000 of them by `make conformance`."""
    fuzzed = fuzz(jars, seed=11, count=4000)

    assert fuzzed.frames == 4000
    assert min(fuzzed.read, fuzzed.refused, fuzzed.header_alone) > 200


def metadata(topics):
    return {
        "throttleTimeMs": 5,
        "brokers": [{"nodeId": 1, "host": "broker", "port": 9092, "rack": None, "_tags": [(7, b"x")]}],
        "clusterId": "c",
        "controllerId": 1,
        "topics": [{"errorCode": 0, "name": f"topic-{number}"} for number in range(topics)],
    }


@pytest.mark.parametrize("version", range(14))
def test_the_head_of_a_response_is_replaced(protocol, version):
    """The brokers come before the topics, of which no byte is read."""
    codec = protocol.response(3, version)
    message = metadata(300)
    if version < 9:
        del message["brokers"][0]["_tags"]
    data = codec.write(message)
    head, after = codec.read_head(b"\xff" + data, "brokers", at=1)
    assert list(head) == (["throttleTimeMs", "brokers"] if version >= 3 else ["brokers"])
    assert data[: after - 1] == codec.write_head(head, "brokers")

    head["brokers"][0]["host"] = "gateway"
    moved = codec.read(codec.write_head(head, "brokers") + data[after - 1 :])
    assert moved.pop("brokers")[0]["host"] == "gateway"
    assert moved == {name: value for name, value in codec.read(data).items() if name != "brokers"}


def test_the_head_is_read_although_the_rest_is_malformed(protocol):
    codec = protocol.response(3, 13)
    data = codec.write(metadata(1))
    head, after = codec.read_head(data, "controllerId")
    assert head["clusterId"] == "c"
    assert codec.read_head(data[:after] + b"\xff" * 9, "controllerId") == (head, after)
    with pytest.raises(Malformed, match="ends early"):
        codec.read_head(data[: after - 1], "controllerId")


def test_a_head_ends_with_a_field_of_the_version_that_has_no_tag(protocol):
    codec = protocol.response(18, 3)
    for name in "supportedFeatures", "none":
        with pytest.raises(ValueError, match=f"ApiVersionsResponse v3 has no field '{name}'"):
            codec.read_head(b"", name)
        with pytest.raises(ValueError, match=f"ApiVersionsResponse v3 has no field '{name}'"):
            codec.write_head({}, name)


def test_the_head_of_a_message_is_written_alone(protocol):
    assert protocol.request(19, 7).write_head({"timeoutMs": 1}, "timeoutMs") == bytes.fromhex("01 00000001")


def test_an_error_names_the_message_and_its_version(protocol):
    with pytest.raises(Malformed, match=r"^CreateTopicsRequest v7 ends early, after 0 bytes$"):
        protocol.request(19, 7).read(b"")
    with pytest.raises(Unwritable, match=r"^CreateTopicsRequest v7: topics\[\].name is null$"):
        protocol.request(19, 7).write({"topics": [{"name": None}]})
