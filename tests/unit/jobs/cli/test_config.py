"""`mutation-quota config`, as an operator runs it."""

import json
import socket

import pytest
import yaml

from tests.support.programs import run


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)

    def _config(*args, exit_code=0):
        done = run("config", *args, cwd=tmp_path)
        assert done.returncode == exit_code, done.stderr
        return done.stdout or done.stderr

    return _config


def test_changed_settings_are_listed_with_their_defaults(config):
    shown = config("describe", "--changed", "--set", "quota.shadow=true", "--set", "storage.options.a=b")

    assert [line.split() for line in shown.splitlines()] == [
        ["No", "settings", "file."],
        ["SETTING", "VALUE", "DEFAULT", "FROM"],
        ["storage.options.a", "********", "-", "--set"],
        ["quota.shadow", "true", "false", "--set"],
    ]


def test_sections_and_single_settings_can_be_chosen(config):
    shown = config("describe", "repeats", "quota.shadow")

    assert [line.split() for line in shown.splitlines()] == [
        ["No", "settings", "file."],
        ["SETTING", "VALUE", "FROM"],
        ["quota.shadow", "false", "default"],
        ["repeats.window_seconds", "60.0", "default"],
    ]


def test_a_setting_of_another_option_names_it(config, tmp_path):
    (tmp_path / "client.properties").write_text("security.protocol=SSL\n")
    given = ["--bootstrap-server", "k:1", "--command-config", "client.properties"]
    shown = config("describe", "--changed", *given, "kafka.security_protocol")
    assert shown.splitlines()[-1].split()[-3:] == ["PLAINTEXT", "--command-config", "client.properties"]


def test_programs_get_the_values_with_their_types(config):
    document = json.loads(config("describe", "topics.partitions", "topics.create", "--output", "json"))
    as_default = {"changed": False, "origin": "default", "source": None}
    assert document == {
        "file": None,
        "settings": [
            {"name": "topics.create", "value": True, "default": True} | as_default,
            {"name": "topics.partitions", "value": 2, "default": 2} | as_default,
        ],
    }


def test_the_file_that_was_read_is_named(config, tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "mutation-quota.toml").write_text("[topics]\npartitions = 8\n")

    document = yaml.safe_load(config("describe", "--changed", "--output", "yaml"))

    assert document["file"] == str(tmp_path / "conf" / "mutation-quota.toml")
    assert [(setting["name"], setting["source"]) for setting in document["settings"]] == [
        ("topics.partitions", "conf/mutation-quota.toml")
    ]
    assert config("describe", "--changed").startswith(f"Settings file: {document['file']}\nSETTING ")


def test_a_table_without_entries_is_not_an_error(config):
    for args, line in (
        (["storage.options"], "This table has no entries."),
        (["quota", "--changed"], "None of these settings differs from its default."),
    ):
        assert config("describe", *args) == f"No settings file.\n{line}\n"


def test_properties_of_librdkafka_are_checked_without_a_connection(config):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address, timeout = f"127.0.0.1:{server.getsockname()[1]}", "kafka.librdkafka.socket.timeout.ms"
        config("describe", "--bootstrap-server", address, "--set", f"{timeout}=6000")
        said = config("describe", "--bootstrap-server", address, "--set", f"{timeout}=xyzzy-", exit_code=2)
        assert said.startswith(
            "mutation-quota: librdkafka rejects a property: Invalid value for configuration property"
        )
        assert "xyzzy" not in said
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()
