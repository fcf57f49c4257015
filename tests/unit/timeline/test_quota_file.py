"""The declarative file of quotas."""

import json

import pytest
import yaml

from jobs.cli.quotas.files import read_quota_records
from quota.errors import BadInput
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.timeline.quota_file import read_quota_file, write_quota_file
from tests.support.programs import run

WHOLE = """\
quotas:
  - user: alice
    controller_mutation_rate: 5
    controller_mutation_burst: 100
    max_debt_ms: 60000
    comment: as agreed
  - {user-defaults: true, client: app, controller_mutation_rate: 1.5, shadow: true}
  - {client-defaults: true, controller_mutation_rate: 3}
  - {user: "12", controller_mutation_rate: 1}
"""


def test_all_forms_of_a_file_are_read():
    assert read_quota_file(WHOLE.encode(), "f") == [
        QuotaRecord(QuotaEntity("alice"), 5.0, 100.0, 60_000, comment="as agreed"),
        QuotaRecord(QuotaEntity(None, "app"), 1.5, shadow=True),
        QuotaRecord(QuotaEntity(client_id=None), 3.0),
        QuotaRecord(QuotaEntity("12"), 1.0),
    ]


def test_a_written_file_is_read_unchanged():
    """It has names that YAML would read as other types, and quotas with all their options."""
    quotas = [
        QuotaRecord(QuotaEntity(name, None), 0.1, 7.0, 9, shadow=True, comment=f"as agreed with {name}")
        for name in ("12", "null", "~", "true", "a: b", "<default>", " x ", "naïve", "line\nbreak", "- #", "2020-01-01")
    ]
    assert read_quota_file(write_quota_file(quotas).encode(), "f") == quotas


def test_numbers_are_read_as_written():
    """In YAML 1.1 010 is 8, and 1e5 is text."""
    for written, rate in (("010", 10.0), ("1e5", 1e5), (".5", 0.5), ("7", 7.0)):
        (record,) = read_quota_file(f"quotas: [{{user: a, controller_mutation_rate: {written}}}]".encode(), "f")
        assert record.controller_mutation_rate == rate


def test_an_empty_list_of_quotas_has_to_be_explicit():
    assert read_quota_file(b"quotas: []", "f") == []
    assert read_quota_file(write_quota_file([]).encode(), "f") == []
    with pytest.raises(BadInput, match="empty"):
        read_quota_file(b"# nothing\n", "f")


DESCRIBED = """
quotas:
- entity:
    user: a
    client-id: null
  controller_mutation_rate: 5.0
  controller_mutation_burst: null
  max_debt_ms: 1000
  shadow: true
  since: 100
  effective_at: null
- entity: {user: a, client-id: null}
  controller_mutation_rate: null
  controller_mutation_burst: null
  max_debt_ms: null
  shadow: false
  since: null
  effective_at: 1800000000000
"""


def test_what_quotas_describe_prints_is_a_quota_file():
    """In both formats; the second entry is a scheduled removal."""
    as_json = json.dumps(yaml.safe_load(DESCRIBED))
    for content in (DESCRIBED, as_json):
        assert read_quota_file(content.encode(), "f") == [
            QuotaRecord(QuotaEntity("a", None), 5.0, max_debt_ms=1000, shadow=True),
            QuotaRecord(QuotaEntity("a", None), None, effective_at=1_800_000_000_000),
        ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("quotas:\n- {entity: {user: a}}\n", "f:2:3: controller_mutation_rate: missing; only a change with effective"),
        ("quotas:\n- {entity: , controller_mutation_rate: 1}\n", "f:2:3: entity: missing"),
        ("quotas:\n- {entity: {}, controller_mutation_rate: 1}\n", "f:2:12: entity: expected user, client-id or both"),
        ("quotas:\n- {entity: {user: ''}, controller_mutation_rate: 1}\n", "user: the name is empty; null is the"),
        ("quotas:\n- {entity: {users: a}, controller_mutation_rate: 1}\n", "f:2:13: unknown key 'users'"),
        ("quotas:\n- {entity: {user: a}, controller_mutation_rate: 1, rate: 2}\n", "unknown key 'rate'; known are"),
        (
            "quotas:\n- {entity: {user: a}, controller_mutation_rate: 1, effective_at: x}\n",
            "expected a time in epoch ms",
        ),
        (
            "quotas:\n" + "- {entity: {user: a}, controller_mutation_rate: 1, effective_at: 9}\n" * 2,
            "f:3:3: user-principal 'a' has a quota for 1970-01-01T00:00:00.009Z already, in line 2",
        ),
        ("quotas:\n- user: a\n  rate: 5\n", "f:3:3: unknown key 'rate'; known are user,"),
        ("quota: []\n", "f:1:1: unknown key 'quota'; known are quotas"),
        (
            "quotas:\n- user: a\n  controller_mutation_rate: fast\n",
            "f:3:29: controller_mutation_rate: expected a finite",
        ),
        ("quotas:\n- user: a\n  controller_mutation_rate: '5'\n", "f:3:29: .* above 0, got '5'"),
        ("quotas:\n- user: a\n  controller_mutation_rate: .inf\n", "f:3:29: .* got '.inf'"),
        ("quotas:\n- user: a\n  controller_mutation_rate: .nan\n", "f:3:29: .* got '.nan'"),
        ("quotas:\n- user: a\n  controller_mutation_rate: 0\n", "f:3:29: .* got '0'"),
        ("quotas:\n- user: a\n  controller_mutation_rate: yes\n", "f:3:29: .* got 'yes'"),
        ("quotas:\n- user: a\n  controller_mutation_rate:\n", "f:3:28: .* got ''"),
        (
            "quotas:\n- {user: a, controller_mutation_rate: 1, max_debt_ms: 1.5}\n",
            "f:2:55: max_debt_ms: expected a whole",
        ),
        ("quotas:\n- {user: a, controller_mutation_rate: 1, shadow: 1}\n", "shadow: expected true or false, got '1'"),
        ("quotas:\n- {user: a, controller_mutation_rate: 1:30}\n", "expected a finite number above 0, got '1:30'"),
        ("quotas:\n- {user: a, controller_mutation_rate: !!int ''}\n", "cannot be read"),
        ("quotas:\n- {user: a, controller_mutation_rate: 1, max_debt_ms: 010}\n", "whole number of milliseconds"),
        ("quotas:\n- {user: !!timestamp x, controller_mutation_rate: 1}\n", "user: 'x' cannot be read"),
        ("quotas:\n- user: a\n", "f:2:3: controller_mutation_rate: missing"),
        ("quotas:\n- controller_mutation_rate: 1\n", "f:2:3: no entity: give user or"),
        ("quotas:\n- {user: , controller_mutation_rate: 1}\n", "user: the name is empty; use user-defaults: true"),
        ("quotas:\n- {user: '', controller_mutation_rate: 1}\n", "user: the name is empty"),
        ("quotas:\n- {user: 12, controller_mutation_rate: 1}\n", "user: expected text, got 12; put it in quotes"),
        ("quotas:\n- {user: [a], controller_mutation_rate: 1}\n", "user: expected a single value"),
        ("quotas:\n- {user: a, user-defaults: true, controller_mutation_rate: 1}\n", "are mutually exclusive"),
        ("quotas:\n- {user-defaults: no, controller_mutation_rate: 1}\n", "user-defaults: expected true, got 'no'"),
        (
            "quotas:\n- {user: a, controller_mutation_rate: 1}\n- {user: a, controller_mutation_rate: 2}\n",
            "f:3:3: user-principal 'a' has a quota already, in line 2",
        ),
        ("quotas:\n- {user: a, user: b, controller_mutation_rate: 1}\n", "f:2:13: user is given twice"),
        ("quotas: 5\n", "f:1:9: quotas: expected a list"),
        ("- a\n", "f:1:1: expected keys and values"),
        ("quotas:\n- ? [a]\n  : b\n", "f:2:5: expected a key"),
        ("quotas: [\n", "f:2:1: not YAML"),
        ("quotas:\n\t- a\n", "f:2:1: not YAML"),
        ("quotas:\n- *x\n", "f:2:3: not YAML: found undefined alias"),
        ("[" * 100_000, "f:1:11: nested too deep"),
        ("a: 1\n---\nb: 2\n", "f:2:1: not YAML"),
    ],
)
def test_errors_are_reported_with_their_position(text, error):
    with pytest.raises(BadInput, match=error):
        read_quota_file(text.encode(), "f")


def test_a_file_of_other_bytes_is_rejected():
    with pytest.raises(BadInput, match=r"f: not UTF-8 \(byte 0xff at 0\)"):
        read_quota_file(b"\xff\xfe", "f")


@pytest.mark.parametrize("command", ["validate", "apply"])
def test_an_invalid_file_is_one_line_with_exit_code_2_and_contacts_no_cluster(tmp_path, command):
    (tmp_path / "quotas.yaml").write_text("quotas:\n- user: a\n  controller_mutation_rate: fast\n")
    options = ["--bootstrap-server", "127.0.0.1:1"] if command == "apply" else []
    done = run("quotas", command, "quotas.yaml", *options, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mutation-quota: quotas.yaml:3:29: controller_mutation_rate:")
    assert done.stderr.count("\n") == 1


def test_a_misspelled_key_of_json_lines_is_a_warning_that_validate_can_fail_on(tmp_path):
    line = '{"entity": {"user": null}, "controller_mutation_rate": 5, "shadw": true}'
    (tmp_path / "q.json").write_text(line)
    done = run("quotas", "validate", "q.json", "--fail-on-warning", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "q.json: 1 quota, valid\n")
    assert done.stderr == "warning: q.json:1: the unknown key 'shadw' is ignored; did you mean shadow?\n"


def test_a_misspelled_key_is_a_warning_where_quotas_are_compared_or_applied(tmp_path, capsys):
    (tmp_path / "q.jsonl").write_text('{"entity": {"user": "a"}, "controller_mutation_rate": 5, "max_dept_ms": 1}')
    assert read_quota_records(tmp_path / "q.jsonl") == [QuotaRecord(QuotaEntity("a"), 5.0)]
    assert "unknown key 'max_dept_ms' is ignored; did you mean max_debt_ms?" in capsys.readouterr().err
