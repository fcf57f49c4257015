"""Files of quotas in either format."""

import pytest

from quota.errors import BadInput
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.timeline.quota_lines import is_json_lines, read_quotas_of_entities, unknown_keys

LINES = b"""{"entity": {"user": "a"}, "controller_mutation_rate": 5}

{"entity": {"client-id": null}, "controller_mutation_rate": 1, "since": 7}
"""


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("q.yaml", b"{}", False),
        ("q.YML", b"{}", False),
        ("q.json", b'{"quotas": []}', False),
        ("q.json", b'{\n  "quotas": []\n}', False),
        ("q", b'{"quotas": []}', False),
        ("q.json", b'{"entity": {"user": "a"}, "controller_mutation_rate": 5}', True),
        ("q.jsonl", b"quotas: []", True),
        ("q", b"\xef\xbb\xbf \n{", True),
        ("q", b"quotas:", False),
        ("q", b"", True),
    ],
)
def test_the_format_is_known_by_the_suffix_or_else_by_the_beginning(name, content, expected):
    assert is_json_lines(content, name) is expected


def test_json_lines_and_yaml_give_the_same_quotas():
    yaml = (
        b"quotas:\n- {user: a, controller_mutation_rate: 5}\n- {client-defaults: true, controller_mutation_rate: 1}\n"
    )
    assert read_quotas_of_entities(LINES, "q.jsonl") == read_quotas_of_entities(yaml, "q.yaml")
    assert read_quotas_of_entities(LINES, "q")[1].entity == QuotaEntity(client_id=None)


def test_misspelled_keys_of_json_lines_are_reported():
    lines = LINES + b'{"entity": {"user": "b"}, "max_dept_ms": 5, "controller_mutation_rate": 1, "x": 0}'
    assert list(unknown_keys(lines, "q")) == [
        "q:4: the unknown key 'max_dept_ms' is ignored; did you mean max_debt_ms?",
        "q:4: the unknown key 'x' is ignored",
    ]
    assert not list(unknown_keys(b"quotas: []", "q"))


def test_json_lines_may_schedule_changes_as_quotas_describe_prints_them():
    """The second one is a scheduled removal, which only a change with a time can be."""
    lines = (
        b'{"entity": {"user": "a"}, "controller_mutation_rate": 1.0, "since": null, "effective_at": 100}\n'
        b'{"entity": {"user": "a"}, "controller_mutation_rate": null, "since": null, "effective_at": 200}\n'
    )
    assert read_quotas_of_entities(LINES + lines, "q")[2:] == [
        QuotaRecord(QuotaEntity("a"), 1.0, effective_at=100),
        QuotaRecord(QuotaEntity("a"), None, effective_at=200),
    ]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            b'{"entity": {"user": "a"}, "controller_mutation_rate": 7}',
            "q:4: user-principal 'a' has a quota already, in line 1",
        ),
        (
            b'{"entity": {"user": "b"}, "controller_mutation_rate": null}',
            "q:4: expected an entity with controller_mutation_rate",
        ),
        (
            b'{"entity": {"user": "c"}, "controller_mutation_rate": 1, "effective_at": 9}\n' * 2,
            "q:5: user-principal 'c' has a quota for 1970-01-01T00:00:00.009Z already, in line 4",
        ),
        (b'{"bucket": {"user": "b"}}', "q:4: expected an entity with"),
        (b'{"entity"', "q:4: value: not JSON"),
    ],
)
def test_an_invalid_line_is_named(line, error):
    with pytest.raises(BadInput, match=f"^{error}"):
        read_quotas_of_entities(LINES + line, "q")
