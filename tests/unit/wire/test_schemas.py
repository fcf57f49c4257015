"""Schemas in jars, and invalid jars."""

import json
import zipfile

import pytest

from quota.errors import BadInput
from quota.wire.schemas import read_release, read_schemas

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


def test_a_jar_names_its_release(jar):
    assert read_release(jar) == "9.8.7"


def test_a_folder_is_resolved_to_its_jar(jar):
    (jar.parent / "kafka-server-9.8.7.jar").touch()
    assert read_schemas(jar.parent).keys() == {"PingRequest"}
    assert read_release(jar.parent) == "9.8.7"


def test_a_folder_without_a_jar_is_rejected(tmp_path):
    with pytest.raises(BadInput, match=f"{tmp_path} has 0 jars"):
        read_schemas(tmp_path)


def test_a_folder_with_two_jars_is_rejected(jar):
    (jar.parent / "kafka-clients-9.8.8.jar").touch()
    with pytest.raises(BadInput, match=f"{jar.parent} has 2 jars"):
        read_schemas(jar.parent)


def test_a_missing_jar_is_rejected(tmp_path):
    with pytest.raises(BadInput, match=r"none\.jar cannot be read: No such file"):
        read_schemas(tmp_path / "none.jar")


def test_an_invalid_jar_is_rejected(tmp_path):
    path = tmp_path / "kafka-clients-1.jar"
    path.write_text("hello")
    with pytest.raises(BadInput, match=f"{path} is not a jar"):
        read_schemas(path)


def test_a_jar_without_schemas_is_rejected(tmp_path):
    path = make_jar(tmp_path / "other.jar", {"common/message/README.md": ""})
    with pytest.raises(BadInput, match=f"{path} has no common/message"):
        read_schemas(path)
    with pytest.raises(BadInput, match=f"{path} has no kafka/kafka-version.properties"):
        read_release(path)


@pytest.mark.parametrize(
    "text", ['{"name": ', "[]", "{}", '{"name": "PingRequest"}', "\udcff".encode(errors="surrogateescape")]
)
def test_an_invalid_schema_is_rejected(tmp_path, text):
    path = make_jar(tmp_path / "kafka-clients-1.jar", {"common/message/X.json": text})
    with pytest.raises(BadInput, match=f"{path}"):
        read_schemas(path)


def test_kafkas_own_jar(schemas, jars):
    assert len(schemas) > 190
    assert json.dumps(schemas["CreateTopicsRequest"]["validVersions"]) == '"2-7"'
    assert read_release(jars).startswith("4.")
