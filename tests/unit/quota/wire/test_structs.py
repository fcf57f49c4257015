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


def test_a_field_may_have_a_tag_in_some_versions():
    """Before these versions it is an ordinary field, and its tag is rejected."""
    tagged = (
        field("A", versions="1+", tag=1, taggedVersions="2+"),
        field("B", versions="2+", tag=0, taggedVersions="2+"),
    )
    before, after = (struct(*tagged, version=version, flexible="1+") for version in (1, 2))
    assert ([member.name for member in before.fields], before.tagged, before.barred) == (["a"], (), (1, 0))
    assert ([member.name for member in after.tagged], after.fields, after.barred) == (["b", "a"], (), ())


def test_an_unknown_type_is_rejected():
    with pytest.raises(BadInput, match="field X is of type int128, which is unknown"):
        struct(field(kind="[]int128"))
