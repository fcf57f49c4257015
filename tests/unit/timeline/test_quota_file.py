"""The file of all quotas: a document in YAML or JSON, or JSON lines."""

import json

import pytest
import yaml

from quota.errors import BadInput
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.timeline.quota_file import is_json_lines, read_quota_file, write_quota_file
from tests.support.programs import run

DOCUMENT = """\
quotas:
- entity: {user: alice}
  controller_mutation_rate: 5
  controller_mutation_burst: 100.0
  max_debt_ms: 60000
  comment: as agreed
- entity: {user: null, client-id: app}
  controller_mutation_rate: 0.5
  controller_mutation_burst: null
  shadow: true
  since: 100
- entity: {client-id: null}
  controller_mutation_rate: null
  effective_at: 1800000000000
"""
AS_JSON = json.dumps(yaml.safe_load(DOCUMENT))
JSON_LINES = "\n\n".join(map(json.dumps, yaml.safe_load(DOCUMENT)["quotas"]))
RECORDS = [
    QuotaRecord(QuotaEntity("alice"), 5.0, 100.0, 60_000, comment="as agreed"),
    QuotaRecord(QuotaEntity(None, "app"), 0.5, shadow=True),
    QuotaRecord(QuotaEntity(client_id=None), None, effective_at=1_800_000_000_000),
]


@pytest.mark.parametrize("content", [DOCUMENT, AS_JSON, JSON_LINES, f"\ufeff{DOCUMENT}", f"\ufeff{JSON_LINES}"])
def test_each_form_of_a_file_gives_the_same_quotas(content):
    """The last one is a scheduled removal, as `quotas describe` prints it."""
    assert read_quota_file(content.encode(), "f") == RECORDS


def test_a_written_file_is_read_unchanged():
    """It has names that YAML would read as other types, and quotas with all their options."""
    names = ("12", "010", "1e5", ".5", "+.5e3", "null", "~", "true", "no", "a: b", " x ", "naïve", "line\nbreak", "- #")
    quotas = [QuotaRecord(QuotaEntity(name, None), 0.1, 1e300, 9, shadow=True, comment=name) for name in names]
    assert read_quota_file(write_quota_file(quotas).encode(), "f") == quotas
    assert read_quota_file(write_quota_file([]).encode(), "f") == []


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("q.yaml", b"{}", False),
        ("q.json", b'{\n  "quotas": []\n}', False),
        ("q", b"{quotas: []}", False),
        ("q.json", b'{"entity": {"user": "a"}, "controller_mutation_rate": 5}', True),
        ("q.jsonl", b"quotas: []", True),
        ("q", b"\xef\xbb\xbf \n{", True),
        ("q", b"quotas:", False),
        ("q", b"", True),
    ],
)
def test_the_format_is_known_by_the_suffix_or_else_by_the_beginning(name, content, expected):
    assert is_json_lines(content, name) is expected


ENTRY = "controller_mutation_rate: 1, entity: {user: a}"


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ("{entity: {user: a}}", ".controller_mutation_rate: missing"),
        ("{entity: {}, controller_mutation_rate: 1}", ".entity: an entity needs a user, a client-id or both"),
        ("{entity: {client: a}, controller_mutation_rate: 1}", ".entity.client: unknown key; did you mean client-id?"),
        (f"{{{ENTRY}, max_dept_ms: 2}}", ".max_dept_ms: unknown key; did you mean max_debt_ms?"),
        ("{user: a, controller_mutation_rate: 1}", ".user: unknown key; known are altered_by, comment, controller_"),
        (f"{{{ENTRY}, cancelled: true}}", ".cancelled: unknown key; known are "),
        (f"{{{ENTRY}, shadow: yes}}", '.shadow: expected bool, got str (value: "yes")'),
        ("{entity: {user: a}, controller_mutation_rate: }", ": controller_mutation_rate: null, but only a change with"),
        (f"{{{ENTRY}}}\n- {{{ENTRY}}}", None),
        ("a", ': expected object, got str (value: "a")'),
        *(
            (f"{{entity: {{user: a}}, controller_mutation_rate: {rate}}}", f".controller_mutation_rate: {error}")
            for rate, error in (
                (".5", 'expected float | null, got str (value: ".5")'),
                ("010", 'expected float | null, got str (value: "010")'),
                ("1:30", 'expected float | null, got str (value: "1:30")'),
                ("1.0e+999", 'expected float | null, got str (value: "1.0e+999")'),
                ("yes", 'expected float | null, got str (value: "yes")'),
                ("!!int ''", 'expected float | null, got str (value: "")'),
            )
        ),
    ],
)
def test_an_invalid_entry_is_named_by_its_path_and_value(entry, error):
    error = "quotas[1]: user-principal 'a' has a quota already, in quotas[0]" if error is None else f"quotas[0]{error}"
    with pytest.raises(BadInput) as raised:
        read_quota_file(f"quotas:\n- {entry}\n".encode(), "f")
    assert str(raised.value).startswith(f"f: {error}")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"# nothing\n", "empty; write 'quotas: []' for no quotas"),
        (b" \n", "empty; for no quotas, write 'quotas: []' to a YAML file"),
        (b"quota: []\n", "quota: unknown key; did you mean quotas?"),
        (b"- a\n", 'value: expected object, got array (value: ["a"])'),
        (b"quotas: [\n", "line 2, column 1: not YAML: did not find expected node content"),
        (b"quotas:\n- {comment: a, comment: b}\n", "line 2, column 3: not YAML: comment is given twice"),
        (b"quotas:\n- *x\n", "line 2, column 3: not YAML: found undefined alias"),
        (b"quotas: &x\n- *x\n", "line 1, column 9: not YAML: found unconstructable recursive node"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff\xfe", "value: not UTF-8 (byte 0xff at 0)"),
        (b'{"entity"', "line 1: value: not JSON: "),
        (b'\n{"entity": {"usr": "a"}}', "line 2: entity.usr: unknown key; did you mean user?"),
        (b'{"bucket": {"user": "b"}}', "line 1: bucket: unknown key; known are "),
        (
            b'{"entity": {"user": "c"}, "controller_mutation_rate": 1, "effective_at": 9}\n' * 2,
            "line 2: user-principal 'c' has a quota for 1970-01-01T00:00:00.009Z already, in line 1",
        ),
    ],
)
def test_an_invalid_file_is_reported_with_the_place(content, error):
    with pytest.raises(BadInput) as raised:
        read_quota_file(content, "f")
    assert str(raised.value).startswith(f"f: {error}")


def test_an_invalid_file_is_one_line_with_exit_code_2(tmp_path):
    (tmp_path / "quotas.yaml").write_text("quotas:\n- entity: {user: a}\n  controller_mutation_rate: fast\n")
    done = run("quotas", "validate", "quotas.yaml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "mutation-quota: quotas.yaml: quotas[0].controller_mutation_rate: expected float | null, "
        'got str (value: "fast")\n'
    )
