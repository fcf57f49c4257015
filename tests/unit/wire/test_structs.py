"""The contents of schemas in a version."""

import pytest

from quota.errors import BadInput
from quota.wire.structs import Versions, struct_of


def field(name="X", kind="int32", versions="0+", **more):
    return {"name": name, "type": kind, "versions": versions, **more}


def struct(*fields, version=0, flexible="none", **more):
    schema = {"name": "PingRequest", "flexibleVersions": flexible, "fields": list(fields), **more}
    return struct_of(schema, version)


@pytest.mark.parametrize(
    ("text", "versions"),
    [("none", set()), ("2", {2}), ("1-3", {1, 2, 3}), ("2+", {2, 3, 4, 5}), ("0+", {0, 1, 2, 3, 4, 5})],
)
def test_a_range_of_versions(text, versions):
    assert {version for version in range(6) if version in Versions.parse(text)} == versions


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("int32", None, 0),
        ("int32", "-1", -1),
        ("int32", -2, -2),
        ("int32", "0x7fffffff", 2147483647),
        ("int64", "9223372036854775807", 9223372036854775807),
        ("bool", None, False),
        ("bool", "true", True),
        ("bool", "false", False),
        ("bool", True, True),
        ("float64", None, 0.0),
        ("float64", "1.5", 1.5),
        ("string", None, ""),
        ("string", "null", None),
        ("string", "classic", "classic"),
        ("bytes", None, b""),
        ("bytes", "null", None),
        ("records", None, b""),
        ("uuid", None, bytes(16)),
        ("[]int32", None, []),
        ("[]int32", "null", None),
        ("Point", None, {}),
        ("Point", "null", None),
    ],
)
def test_a_default_is_a_value(kind, default, value):
    more = {} if default is None else {"default": default}
    if kind == "Point":
        more["fields"] = [field()]
    (found,) = struct(field(kind=kind, **more)).fields
    assert found.default == value
    assert type(found.default) is type(value)


def test_names_begin_in_lower_case():
    found = struct(field("ThrottleTimeMs"), field("timeoutMs"), field("ISR"))
    assert [each.name for each in found.fields] == ["throttleTimeMs", "timeoutMs", "iSR"]


def test_a_version_has_its_fields_alone():
    fields = field("A", versions="0-1"), field("B", versions="1+"), field("C", versions="2+", ignorable=True)
    assert [each.name for each in struct(*fields, version=1).fields] == ["a", "b"]
    assert [each.name for each in struct(*fields, version=2).fields] == ["b", "c"]


def test_fields_of_other_versions_must_not_be_set_unless_they_are_ignorable():
    fields = (
        field("A", versions="1+"),
        field("B", versions="1+", ignorable=True),
        field("C", versions="1+", ignorable="true"),
    )
    assert [each.name for each in struct(*fields).refused] == ["a"]
    assert not struct(*fields, version=1).refused


def test_a_field_may_have_a_tag_in_some_versions():
    """Before these versions it is an ordinary field, and its tag is rejected."""
    tagged = (
        field("A", versions="1+", tag=1, taggedVersions="2+"),
        field("B", versions="2+", tag=0, taggedVersions="2+"),
    )
    before, after = (struct(*tagged, version=version, flexible="1+") for version in (1, 2))
    assert ([each.name for each in before.fields], before.tagged, before.barred) == (["a"], (), (1, 0))
    assert ([each.name for each in after.tagged], after.fields, after.barred) == (["b", "a"], (), ())


def test_a_field_may_stay_as_it_was_before_flexible_versions():
    (old, new) = struct(field(kind="string", flexibleVersions="none"), field(kind="string"), flexible="0+").fields
    assert (old.compact, new.compact) == (False, True)


def test_structs_are_in_place_or_shared():
    shared = [{"name": "Point", "versions": "0+", "fields": [field("Y")]}]
    found = struct(
        field("A", "[]Line", fields=[field("X")]), field("B", "Point"), field("C", "[]Point"), commonStructs=shared
    )
    assert [(each.array, each.kind, each.struct.fields[0].name) for each in found.fields] == [
        (True, "struct", "x"),
        (False, "struct", "y"),
        (True, "struct", "y"),
    ]


@pytest.mark.parametrize(
    ("kind", "old", "flexible"),
    [
        ("bool", 1, 1),
        ("int64", 8, 8),
        ("uuid", 16, 16),
        ("string", 2, 1),
        ("bytes", 4, 1),
        ("records", 4, 1),
        ("[]int64", 4, 1),
    ],
)
def test_the_minimum_size_of_a_field(kind, old, flexible):
    """No fewer bytes can contain it, so wrong counts are detected. A flexible version has a byte for its tags."""
    assert struct(field(kind=kind)).least == old
    assert struct(field(kind=kind), flexible="0+").least == flexible + 1


def test_the_minimum_size_of_a_nullable_struct_is_one_byte():
    nested = field("A", "Point", fields=[field(), field("Y", "int64")])
    assert struct(nested).least == 12
    assert struct({**nested, "nullableVersions": "0+"}).least == 1


def test_an_unknown_type_is_rejected():
    with pytest.raises(BadInput, match="field X is of type int128, which is unknown"):
        struct(field(kind="[]int128"))
