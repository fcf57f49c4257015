"""`mutation-quota config`, as an operator runs it."""

import json

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


def test_changed_settings_stand_beside_their_defaults(config):
    shown = config("show", "--changed", "--set", "quota.shadow=true", "--set", "storage.options.a=b")

    assert [line.split() for line in shown.splitlines()] == [
        ["No", "settings", "file."],
        ["SETTING", "VALUE", "DEFAULT", "FROM"],
        ["storage.options.a", "********", "-", "--set"],
        ["quota.shadow", "true", "false", "--set"],
    ]


def test_sections_and_single_settings_can_be_chosen(config):
    shown = config("show", "minutes", "quota.shadow")

    assert [line.split() for line in shown.splitlines()] == [
        ["No", "settings", "file."],
        ["SETTING", "VALUE", "FROM"],
        ["quota.shadow", "false", "default"],
        ["minutes.trigger_seconds", "60.0", "default"],
        ["minutes.upkeep_seconds", "300.0", "default"],
        ["minutes.keep_days", "0", "default"],
    ]


def test_programs_get_the_values_with_their_types(config):
    document = json.loads(config("show", "topics.partitions", "topics.create", "--output", "json"))
    assert document == {
        "file": None,
        "settings": [
            {
                "name": "topics.create",
                "value": True,
                "default": True,
                "changed": False,
                "origin": "default",
                "source": None,
            },
            {
                "name": "topics.partitions",
                "value": 2,
                "default": 2,
                "changed": False,
                "origin": "default",
                "source": None,
            },
        ],
    }
    (line,) = config("show", "topics.create", "--output", "jsonl").splitlines()
    assert json.loads(line) == document["settings"][0]


def test_the_file_that_was_read_is_named(config, tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "mutation-quota.toml").write_text("[topics]\npartitions = 8\n")

    document = yaml.safe_load(config("show", "--changed", "--output", "yaml"))

    assert document["file"] == str(tmp_path / "conf" / "mutation-quota.toml")
    assert [(each["name"], each["source"]) for each in document["settings"]] == [
        ("topics.partitions", "conf/mutation-quota.toml")
    ]
    assert config("show", "--changed").startswith(f"Settings file: {document['file']}\nSETTING ")


def test_a_name_that_is_no_setting_is_not_found(config):
    assert config("show", "topics.partition", exit_code=4).startswith("mutation-quota: topics.partition: no such")


def test_a_table_without_entries_is_no_error(config):
    for args, line in (
        (["storage.options"], "This table has no entries."),
        (["quota", "--changed"], "None of these settings differs from its default."),
    ):
        assert config("show", *args) == f"No settings file.\n{line}\n"


def test_settings_are_checked_without_a_cluster(config):
    assert config("validate", "--set", "quota.shadow=true") == (
        "no settings file: valid; 1 setting differs from its default (config show --changed)\n"
    )
    counted = json.loads(config("validate", "--set", "quota.shadow=true", "--json"))
    assert (counted["file"], counted["changed_count"]) == (None, 1)
    assert counted["setting_count"] == len(config("show").splitlines()) - 2
    assert "topics.partitions" in config("validate", "--set", "topics.partitions=none", exit_code=2)
