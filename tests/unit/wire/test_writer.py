"""Messages written: bytes calculated by hand, defaults, and values that a version cannot have."""

import pytest

from quota.wire.codec import MessageCodec
from quota.wire.primitives import Unwritable


def codec(*fields, version=0, flexible="none"):
    schema = {"name": "PingRequest", "flexibleVersions": flexible, "fields": list(fields)}
    return MessageCodec(schema, version)


def field(kind, name="X", **more):
    return {"name": name, "type": kind, "versions": "0+", **more}


ORDERS = {"name": "orders", "numPartitions": 3, "replicationFactor": 2}


def test_a_request_of_a_flexible_version(protocol):
    """CreateTopics v7, with an assignment and configs."""
    message = {
        "topics": [
            {
                **ORDERS,
                "assignments": [{"partitionIndex": 0, "brokerIds": [1, 2]}],
                "configs": [{"name": "a", "value": "é"}, {"name": "b", "value": None}],
            }
        ],
        "timeoutMs": 30_000,
        "validateOnly": True,
    }
    assert protocol.request(19, 7).write(message) == bytes.fromhex(
        "02"  # one topic
        "07 6f7264657273"  # orders
        "00000003"  # numPartitions
        "0002"  # replicationFactor
        "02 00000000 03 00000001 00000002 00"  # one assignment: partitionIndex, brokerIds, tags
        "03 02 61 03 c3a9 00 02 62 00 00"  # two configs: name, value, tags
        "00"  # tags
        "00007530"  # timeoutMs
        "01"  # validateOnly
        "00"  # tags
    )


def test_a_request_of_an_older_version(protocol):
    message = {"topics": [{**ORDERS, "configs": [{"name": "b", "value": None}]}], "timeoutMs": 30_000}
    assert protocol.request(19, 4).write(message) == bytes.fromhex(
        "00000001"  # one topic
        "0006 6f7264657273"  # orders
        "00000003"  # numPartitions
        "0002"  # replicationFactor
        "00000000"  # no assignments
        "00000001 0001 62 ffff"  # one config: name, value
        "00007530"  # timeoutMs
        "00"  # validateOnly
    )


def test_missing_fields_have_their_default(protocol):
    """A timeout of 60 s, and no flags; no topics at all, which in Metadata v1 are all."""
    assert protocol.request(19, 7).write({}) == bytes.fromhex("01 0000ea60 00 00")
    assert protocol.request(3, 9).write({}) == bytes.fromhex("01 01 00 00 00")
    assert protocol.response(60, 0).write({"clusterId": "c"}) == bytes.fromhex(
        "00000000 0000 00 02 63 ffffffff 01 80000000 00"
    )


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        ("bool", True, "01"),
        ("int8", -1, "ff"),
        ("int16", -2, "fffe"),
        ("uint16", 65_535, "ffff"),
        ("int32", -(2**31), "80000000"),
        ("uint32", 2**32 - 1, "ffffffff"),
        ("int64", 2**63 - 1, "7fffffffffffffff"),
        ("float64", 1.5, "3ff8000000000000"),
        ("uuid", bytes(range(16)), "000102030405060708090a0b0c0d0e0f"),
        ("string", "é", "0002 c3a9"),
        ("bytes", b"\xff", "00000001 ff"),
        ("records", b"\xff", "00000001 ff"),
        ("[]int8", [1, -1], "00000002 01ff"),
        ("[]int64", [1], "00000001 0000000000000001"),
        ("[]uuid", [b"\xab" * 16], "00000001" + "ab" * 16),
        ("[]string", ["", "a"], "00000002 0000 000161"),
        ("[]bytes", [b"a"], "00000001 00000001 61"),
        ("[]int32", (7,), "00000001 00000007"),
    ],
)
def test_all_types(kind, value, data):
    assert codec(field(kind)).write({"x": value}) == bytes.fromhex(data)


@pytest.mark.parametrize(
    ("length", "data"), [(0, "01"), (126, "7f"), (127, "8001"), (128, "8101"), (16_382, "ff7f"), (16_383, "808001")]
)
def test_compact_lengths_are_one_more(length, data):
    for kind, unit in ("string", "a"), ("bytes", b"a"), ("[]int8", [0]), ("[]string", [""]):
        written = codec(field(kind), flexible="0+").write({"x": unit * length})
        assert written.startswith(bytes.fromhex(data))
        assert len(written) == len(data) // 2 + length + 1


@pytest.mark.parametrize("flexible", ["none", "0+"])
@pytest.mark.parametrize("kind", ["string", "bytes", "records", "[]int32", "[]string"])
def test_null_is_written_if_the_version_allows_it(kind, flexible):
    null = "00 00" if flexible == "0+" else {"string": "ffff"}.get(kind, "ffffffff")
    nullable = field(kind, nullableVersions="1+", default="null")
    assert codec(nullable, version=1, flexible=flexible).write({"x": None}) == bytes.fromhex(null)
    assert codec(nullable, version=1, flexible=flexible).write({}) == bytes.fromhex(null)
    for message in {"x": None}, {}:
        with pytest.raises(Unwritable, match="PingRequest v0: x is null"):
            codec(nullable, flexible=flexible).write(message)


def test_a_nullable_array_has_no_null_elements():
    with pytest.raises(Unwritable, match=r"x\[\] is null"):
        codec(field("[]string", nullableVersions="0+")).write({"x": [None]})


def test_a_nullable_struct_has_a_presence_byte():
    nested = field("Point", nullableVersions="1+", fields=[field("int16")])
    assert codec(nested, version=1).write({"x": {"x": 7}}) == bytes.fromhex("01 0007")
    assert codec(nested, version=1).write({"x": None}) == bytes.fromhex("ff")
    assert codec(nested, version=1).write({}) == bytes.fromhex("01 0000")
    assert codec(nested).write({"x": {"x": 7}}) == bytes.fromhex("0007")


def test_tagged_fields_are_written_unless_they_are_their_default(protocol):
    versions = protocol.response(18, 3)
    assert versions.write({"finalizedFeaturesEpoch": -1, "supportedFeatures": []}) == bytes.fromhex(
        "0000 01 00000000 00"
    )
    assert versions.write({"finalizedFeaturesEpoch": 7, "zkMigrationReady": True}) == bytes.fromhex(
        "0000 01 00000000 02 01 08 0000000000000007 03 01 01"
    )


def test_a_tagged_struct_of_defaults_is_not_written():
    """This is true unless it has its own tags."""
    point = field("Point", tag=0, taggedVersions="0+", fields=[field("int16", default="-1")])
    ping = codec(point, flexible="0+")
    assert ping.write({"x": {"x": -1}}) == ping.write({"x": {}}) == ping.write({}) == b"\0"
    assert ping.write({"x": {"x": 0}}) == bytes.fromhex("01 00 03 0000 00")
    assert ping.write({"x": {"_tags": [(1, b"")]}}) == bytes.fromhex("01 00 05 ffff 01 0100")


def test_a_tagged_field_may_be_null():
    ping = codec(field("string", tag=0, taggedVersions="0+", nullableVersions="0+"), flexible="0+")
    assert ping.write({"x": None}) == bytes.fromhex("01 00 01 00")
    assert ping.write({"x": ""}) == ping.write({}) == b"\0"


def test_unknown_tags_are_written_among_the_known_ones():
    fields = field("int8", "A", tag=0, taggedVersions="0+"), field("int8", "B", tag=7, taggedVersions="0+")
    written = codec(*fields, flexible="0+").write({"a": 1, "b": 2, "_tags": [(9, b"9"), (3, b"3")]})
    assert written == bytes.fromhex("04 000101 030133 070102 090139")


def test_unknown_tags_are_written_in_the_struct_that_has_them(protocol):
    message = {"topics": [{"name": "a", "_tags": [(300, b"\xab")]}]}
    assert protocol.request(3, 9).write(message) == bytes.fromhex("02 02 61 01 ac02 01 ab 01 00 00 00")


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
        protocol.request(19, 4).write({"topics": [{**ORDERS, "_tags": [(1, b"")]}]})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int8", 128),
        ("int16", -(2**15) - 1),
        ("uint16", -1),
        ("int64", 2**63),
        ("int32", "7"),
        ("int32", None),
        ("float64", 10**400),
        ("float64", "1.5"),
        ("uuid", bytes(15)),
        ("uuid", "aaaaaaaaaaaaaaaaaaaaaa"),
        ("[]uuid", [bytes(17)]),
        ("[]int32", [2**31]),
        ("[]int32", 7),
        ("string", "a" * 32_768),
        ("string", "\ud800"),
        ("string", b"a"),
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
