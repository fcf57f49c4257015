"""Messages of the APIs that a gateway reads: round trips, heads, and arbitrary bytes."""

import pytest

from quota.wire.message_codec import MessageCodec
from quota.wire.primitives import Malformed, TooManyElements, Unwritable
from tests.support.wire.fuzz import fuzz


def test_damaged_frames_are_read_or_malformed(jars):
    """Requests and responses with their headers; 100,000 of them by `make conformance`."""
    fuzzed = fuzz(jars, seed=11, count=4000)

    assert fuzzed.frames == 4000
    assert min(fuzzed.read, fuzzed.rejected, fuzzed.header_alone) > 200


def metadata(topics):
    return {
        "throttleTimeMs": 5,
        "brokers": [{"nodeId": 1, "host": "broker", "port": 9092, "rack": None, "_tags": [(7, b"x")]}],
        "clusterId": "c",
        "controllerId": 1,
        "topics": [{"errorCode": 0, "name": f"topic-{number}"} for number in range(topics)],
    }


def test_the_head_is_read_although_the_rest_is_malformed(protocol):
    codec = protocol.response(3, 13)
    data = codec.write(metadata(1))
    head, after = codec.read_head(data, "controllerId")
    assert head["clusterId"] == "c"
    assert codec.read_head(data[:after] + b"\xff" * 9, "controllerId") == (head, after)
    with pytest.raises(Malformed, match="ends early"):
        codec.read_head(data[: after - 1], "controllerId")


def test_a_message_with_more_elements_than_allowed_is_told_from_a_damaged_one(protocol):
    codec = protocol.request(20, 5)
    data = codec.write({"topicNames": ["a", "b"]})
    assert codec.read(data, max_elements=2)["topicNames"] == ["a", "b"]
    with pytest.raises(TooManyElements, match="more elements than allowed"):
        codec.read(data, max_elements=1)


@pytest.mark.parametrize(
    ("key", "version", "message", "first"),
    [
        (3, 1, {"topics": [{"name": "a"}, {"name": "b"}], "allowAutoTopicCreation": True}, {"name": "a"}),
        (3, 12, {"topics": [{"topicId": b"i" * 16, "name": None}]}, {"topicId": b"i" * 16, "name": None}),
        (19, 7, {"topics": [{"name": "a", "numPartitions": 3}]}, {"name": "a"}),
        (20, 1, {"topicNames": ["a", "b"]}, {"name": "a"}),
        (20, 6, {"topics": [{"name": "a"}, {"name": "b"}]}, {"name": "a", "topicId": bytes(16)}),
        (37, 3, {"topics": [{"name": "a", "count": 2, "assignments": None}]}, {"name": "a"}),
    ],
)
def test_the_first_topic_of_a_request_is_read_from_its_beginning(protocol, key, version, message, first):
    """The rest of the request need not be there."""
    codec = protocol.request(key, version)
    assert codec.read_first(codec.write(message)[:24], 0, {"name", "topicId"}) == first
    for none in (b"\0", b"\1") if codec.flexible else (bytes(4), b"\xff" * 4):
        with pytest.raises(Malformed, match="has no topic"):
            codec.read_first(none, 0, {"name", "topicId"})


def test_a_head_ends_with_a_field_of_the_version_that_has_no_tag(protocol):
    codec = protocol.response(18, 3)
    for name in "supportedFeatures", "none":
        with pytest.raises(ValueError, match=f"ApiVersionsResponse v3 has no field '{name}'"):
            codec.read_head(b"", name)
        with pytest.raises(ValueError, match=f"ApiVersionsResponse v3 has no field '{name}'"):
            codec.write_head({}, name)


ORDERS = "07 6f7264657273"
"""The name of a topic as a compact string."""

REST = "00000003 0002 01 01 00 00007530 01 00"
"""Behind the name: partitions, replicas, no assignments or configs, tags; timeout, validateOnly, tags."""

CREATE_V7 = "02" + ORDERS + REST


def codec(*fields, version=0, flexible="none"):
    schema = {"name": "PingRequest", "flexibleVersions": flexible, "fields": list(fields)}
    return MessageCodec(schema, version)


def field(kind, name="X", **more):
    return {"name": name, "type": kind, "versions": "0+", **more}


CREATED = {"name": "orders", "numPartitions": 3, "replicationFactor": 2, "assignments": [], "configs": []}


@pytest.mark.parametrize(
    ("length", "data"), [(0, "01"), (126, "7f"), (127, "8001"), (128, "8101"), (16_382, "ff7f"), (16_383, "808001")]
)
def test_compact_lengths_are_one_more(length, data):
    for kind, unit in ("string", "a"), ("bytes", b"a"), ("[]int8", [0]), ("[]string", [""]):
        written = codec(field(kind), flexible="0+").write({"x": unit * length})
        assert written.startswith(bytes.fromhex(data))
        assert len(written) == len(data) // 2 + length + 1


@pytest.mark.parametrize(("flexible", "data"), [("none", "00000001 ffff"), ("0+", "02 00 00")])
def test_a_nullable_array_has_no_null_elements(flexible, data):
    nullable = codec(field("[]string", nullableVersions="0+"), flexible=flexible)
    with pytest.raises(Malformed, match=r"x\[\] is null"):
        nullable.read(bytes.fromhex(data))
    with pytest.raises(Unwritable, match=r"x\[\] is null"):
        nullable.write({"x": [None]})


def test_tags_without_a_schema_are_kept_in_their_struct(protocol):
    data = bytes.fromhex(CREATE_V7.replace("01 01 00", "01 01 01 ac02 02 abcd")[:-2] + "01 0500")
    tagged = {**CREATED, "_tags": [(300, b"\xab\xcd")]}
    message = {"topics": [tagged], "timeoutMs": 30_000, "validateOnly": True, "_tags": [(5, b"")]}
    assert protocol.request(19, 7).read(data) == message
    assert protocol.request(19, 7).write(message) == data


def test_tagged_structs_that_are_absent_are_not_shared():
    """A change of one message by a caller is not in the next one."""
    point = field(
        "Point", tag=0, taggedVersions="0+", fields=[field("[]int32"), {**field("int16", default="-1"), "name": "Y"}]
    )
    ping = codec(point, flexible="0+")
    read = ping.read(b"\0")
    assert read == {"x": {"x": [], "y": -1}}
    read["x"]["x"].append(1)
    assert ping.read(b"\0") == {"x": {"x": [], "y": -1}}


def test_a_message_that_ends_early_is_malformed(protocol):
    data = bytes.fromhex(CREATE_V7)
    for length in range(len(data)):
        with pytest.raises(Malformed, match="CreateTopicsRequest v7"):
            protocol.request(19, 7).read(data[:length])


LIES = {
    "topics that the bytes cannot hold": (7, "04" + CREATE_V7[2:], "3 elements are claimed in 22 bytes"),
    "2^31 - 1 topics of an older version": (4, "7fffffff" + CREATE_V7, "2147483647 elements are claimed"),
    "a name longer than the message": (7, "02 7f 6162" + "00" * 20, r"topics\[\].name claims 126 bytes of 22"),
    "a name longer than any": (7, "02 818002" + "61" * 40_000, "a string claims 32768 bytes"),
    "a name that is null": (7, "02 00" + REST, r"topics\[\].name is null"),
    "a name that is not UTF-8": (7, CREATE_V7.replace("6f72", "ff72"), "not UTF-8"),
}


@pytest.mark.parametrize("lie", LIES)
def test_wrong_lengths_and_invalid_strings_are_malformed(protocol, lie):
    version, data, error = LIES[lie]
    with pytest.raises(Malformed, match=error):
        protocol.request(19, version).read(bytes.fromhex(data))


def test_an_array_of_numbers_is_not_allocated_before_its_bytes_arrived():
    with pytest.raises(Malformed, match="2147483647 elements are claimed in 4 bytes"):
        codec(field("[]int64")).read(bytes.fromhex("7fffffff 00000000"))


def test_elements_of_no_bytes_are_at_most_as_many_as_the_bytes_left():
    """Kafka does the same: a struct may have no field in a version."""
    empty = codec(field("[]Point", fields=[field("int32", versions="1+")]), field("int16"))
    assert empty.read(bytes.fromhex("00000002 0007"))["x"] == 7
    with pytest.raises(Malformed, match="3 elements are claimed in 2 bytes"):
        empty.read(bytes.fromhex("00000003 0007"))


def test_all_elements_together_are_bounded(protocol):
    topic = "02 61 00000001 0001 02 00000000 02 00000001 00 01 00"
    data = bytes.fromhex("03" + topic + topic[:-2] + "01 0500" + "00007530 00 00")
    create = protocol.request(19, 7)
    elements = 2 + 2 + 2 + 1  # topics, assignments, brokers, tags
    assert len(create.read(data, max_elements=elements)["topics"]) == 2
    for fewer in range(elements):
        with pytest.raises(Malformed, match="more elements"):
            create.read(data, max_elements=fewer)


TAGS = {
    "of a size that is too small": ("01 01 07 0000000000000007", "finalizedFeaturesEpoch is not as long"),
    "of a size that is too large": ("01 01 09 0000000000000007 00", "finalizedFeaturesEpoch is not as long"),
}


@pytest.mark.parametrize("tags", TAGS)
def test_ambiguous_tagged_fields_are_malformed(protocol, tags):
    """Kafka takes them by what is in them."""
    data, error = TAGS[tags]
    with pytest.raises(Malformed, match=error):
        protocol.response(18, 3).read(bytes.fromhex("0000 01 00000000" + data))


def test_the_tag_of_another_version_is_malformed():
    """Kafka does the same: the field is known, and does not belong here."""
    ping = codec(field("int8", tag=0, taggedVersions="1+"), flexible="0+")
    with pytest.raises(Malformed, match="tag 0 is not of this version"):
        ping.read(bytes.fromhex("07 01 00 01 07"))


def test_a_tagged_struct_of_defaults_is_not_written():
    """This is true unless it has its own tags."""
    point = field("Point", tag=0, taggedVersions="0+", fields=[field("int16", default="-1")])
    ping = codec(point, flexible="0+")
    assert ping.write({"x": {"x": -1}}) == ping.write({"x": {}}) == ping.write({}) == b"\0"
    assert ping.write({"x": {"x": 0}}) == bytes.fromhex("01 00 03 0000 00")
    assert ping.write({"x": {"_tags": [(1, b"")]}}) == bytes.fromhex("01 00 05 ffff 01 0100")


def test_fields_of_other_versions_are_ignored_if_the_schema_allows_it(protocol):
    """The rack of a broker is unknown to a Metadata v0; whether topics may be created is not ignorable."""
    broker = {"nodeId": 1, "host": "h", "port": 9092, "rack": "r"}
    assert protocol.response(3, 0).write({"brokers": [broker]}) == bytes.fromhex(
        "00000001 00000001 0001 68 00002384 00000000"
    )
    assert protocol.request(3, 3).write({"topics": None, "allowAutoTopicCreation": True}) == bytes.fromhex("ffffffff")
    with pytest.raises(
        Unwritable, match="MetadataRequest v3: allowAutoTopicCreation is set, but this version does not have it"
    ):
        protocol.request(3, 3).write({"allowAutoTopicCreation": False})


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("int32", 0, 1),
        ("string", "", "a"),
        ("[]int32", [], [1]),
        ("[]int32", (), None),
        ("uuid", bytes(16), b"\1" * 16),
        ("Point", {"x": 0}, {"x": 1}),
    ],
)
def test_fields_of_other_versions_must_be_their_default_if_they_are_not_ignorable(kind, default, value):
    later = {**field(kind), "versions": "1+"}
    if kind == "Point":
        later["fields"] = [field("int8")]
    ping = codec(later)
    assert ping.write({"x": default}) == ping.write({}) == b""
    with pytest.raises(Unwritable, match="x is set, but this version does not have it"):
        ping.write({"x": value})


def test_tags_are_not_dropped_by_versions_that_have_none(protocol):
    with pytest.raises(Unwritable, match=r"topics\[\]\._tags is set, but this version does not have it"):
        protocol.request(19, 4).write({"topics": [{**CREATED, "_tags": [(1, b"")]}]})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int8", 128),
        ("int32", "7"),
        ("float64", 10**400),
        ("uuid", bytes(15)),
        ("uuid", "aaaaaaaaaaaaaaaaaaaaaa"),
        ("[]uuid", [bytes(17)]),
        ("[]int32", [2**31]),
        ("[]int32", 7),
        ("string", "a" * 32_768),
        ("string", "\ud800"),
        ("[]string", [None]),
        ("bytes", "a"),
        ("[]Point", [None]),
        ("Point", None),
    ],
)
@pytest.mark.parametrize("flexible", ["none", "0+"])
def test_values_of_other_types_are_rejected(kind, value, flexible):
    more = {"fields": [field("int8")]} if "Point" in kind else {}
    with pytest.raises(Unwritable, match="PingRequest v0: "):
        codec(field(kind, **more), flexible=flexible).write({"x": value})
