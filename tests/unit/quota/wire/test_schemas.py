"""Schemas in jars, and invalid jars."""

import zipfile

import pytest

from quota.errors import BadInput
from quota.wire.schemas import read_release, read_schemas, struct_of

SCHEMA = """
// The licence.
{
  "name": "PingRequest", // its name
  "type": "request",
  // Version 1 is the same.
  "validVersions": "0-1", "about": "See https://kafka.apache.org, and \\"//\\"."
}
"""


def make_jar(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


@pytest.fixture
def jar(tmp_path):
    return make_jar(
        tmp_path / "kafka-clients-9.8.7.jar",
        {"common/message/PingRequest.json": SCHEMA, "kafka/kafka-version.properties": "commitId=1\nversion=9.8.7\n"},
    )


def test_a_schema_is_json_with_comments(jar):
    assert read_schemas(jar) == {
        "PingRequest": {
            "name": "PingRequest",
            "type": "request",
            "validVersions": "0-1",
            "about": 'See https://kafka.apache.org, and "//".',
        }
    }


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, r"clients\.jar cannot be read: No such file"),
        ("hello", r"clients\.jar is not a jar"),
        ({"common/message/README.md": ""}, r"clients\.jar has no common/message"),
        *(
            ({"common/message/X.json": text}, r"clients\.jar")
            for text in ('{"name": ', "[]", "{}", '{"name": "PingRequest"}', "\udcff".encode(errors="surrogateescape"))
        ),
    ],
)
def test_a_jar_without_schemas_is_rejected_with_its_path(tmp_path, content, error):
    path = tmp_path / "clients.jar"
    if isinstance(content, dict):
        make_jar(path, content)
    elif content:
        path.write_text(content)
    with pytest.raises(BadInput, match=f"{tmp_path}/{error}"):
        read_schemas(path)


def test_a_jar_without_a_release_is_rejected(tmp_path):
    path = make_jar(tmp_path / "other.jar", {})
    with pytest.raises(BadInput, match=f"{path} has no kafka/kafka-version.properties"):
        read_release(path)


def test_a_folder_has_one_jar_of_clients(tmp_path):
    with pytest.raises(BadInput, match=f"{tmp_path} has 0 jars"):
        read_schemas(tmp_path)
    for release in "89":
        (tmp_path / f"kafka-clients-9.8.{release}.jar").touch()
    with pytest.raises(BadInput, match=f"{tmp_path} has 2 jars"):
        read_schemas(tmp_path)


def field(name="X", kind="int32", versions="0+", **more):
    return {"name": name, "type": kind, "versions": versions, **more}


def struct(*fields, version=0, flexible="none", **more):
    schema = {"name": "PingRequest", "flexibleVersions": flexible, "fields": list(fields), **more}
    return struct_of(schema, version)


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
