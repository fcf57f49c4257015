"""Files of quotas in either format."""

import pytest

from quota.errors import BadInput
from quota.records.entity import QuotaEntity
from quota.timeline.quota_lines import is_json_lines, read_quotas_of_entities

LINES = b"""{"entity": {"user": "a"}, "controller_mutation_rate": 5}

{"entity": {"client-id": null}, "controller_mutation_rate": 1, "since": 7}
"""


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("q.yaml", b"{}", False),
        ("q.YML", b"{}", False),
        ("q.json", b'{"quotas": []}', False),
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
            b'{"entity": {"user": "b"}, "controller_mutation_rate": 1, "effective_at": 9}',
            "q:4: expected an entity with",
        ),
        (b'{"bucket": {"user": "b"}}', "q:4: expected an entity with"),
        (b'{"entity"', "q:4: value: not JSON"),
    ],
)
def test_a_bad_line_is_named(line, error):
    with pytest.raises(BadInput, match=f"^{error}"):
        read_quotas_of_entities(LINES + line, "q")
