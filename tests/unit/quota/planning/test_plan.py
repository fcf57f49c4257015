"""Plans from the current quotas to the intended ones, and the file of all quotas: YAML, JSON or JSON lines."""

import json

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from quota.errors import BadInput
from quota.planning.plan import ending, plan, rollback_plan
from quota.planning.quota_file import is_json_lines, read_quota_file, write_quota_file
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Quota, QuotaRecord
from quota.timeline.change import QuotaChange, to_change
from quota.timeline.timeline import QuotaTimeline
from tests.support.factories import timeline

ALICE, BOB, CAROL = QuotaEntity("alice"), QuotaEntity("bob"), QuotaEntity("carol")


def summary(steps):
    return [(step.sign, step.record.entity, step.before, step.after) for step in steps]


def test_a_plan_sets_changes_and_removes_and_leaves_the_rest_alone():
    present = timeline((ALICE, 5.0, 0), (BOB, 7.0, 0), (CAROL, 1.0, 0))
    wanted = [QuotaRecord(ALICE, 5.0, comment="another comment alone is no change"), QuotaRecord(BOB, 7.0, 99.0)]
    new = QuotaEntity("dora")
    assert summary(plan([*wanted, QuotaRecord(new, 2.0)], present, 10)) == [
        ("~", BOB, Quota(7.0), Quota(7.0, 99.0)),
        ("-", CAROL, Quota(1.0), None),
        ("+", new, None, Quota(2.0)),
    ]


def test_a_scheduled_plan_starts_from_the_quotas_in_force_then():
    present = timeline((ALICE, 5.0, 0), (ALICE, 7.0, 100))
    assert summary(plan([QuotaRecord(ALICE, 7.0)], present, 99)) == [
        ("~", ALICE, Quota(5.0), Quota(7.0)),
        ("-", ALICE, Quota(7.0), None),
    ]
    assert plan([QuotaRecord(ALICE, 7.0)], present, 100) == []


def test_a_plan_schedules_the_files_changes_and_leaves_equal_ones():
    present = timeline((ALICE, 5.0, 0), (ALICE, 7.0, 100), (BOB, 9.0, 200))
    equal = [QuotaRecord(ALICE, 5.0), QuotaRecord(ALICE, 7.0, effective_at=100)]
    assert plan([*equal, QuotaRecord(BOB, 9.0, effective_at=200)], present, 10) == []
    steps = plan([*equal, QuotaRecord(BOB, None, effective_at=300)], present, 10)
    assert [str(step) for step in steps] == [
        "- user-principal 'bob': controller_mutation_rate=9.0 (scheduled for 1970-01-01T00:00:00.200Z, cancelled)",
        "- user-principal 'bob': removed (scheduled for 1970-01-01T00:00:00.300Z)",
    ]
    assert [(step.record.effective_at, step.record.cancelled) for step in steps] == [(200, True), (300, False)]


def test_a_change_scheduled_for_the_past_is_rejected():
    with pytest.raises(BadInput, match=r"'alice': effective_at 1970-01-01T00:00:00\.100Z is not after"):
        plan([QuotaRecord(ALICE, 7.0, effective_at=100)], timeline((ALICE, 5.0, 0)), 100)


def test_a_rollback_restores_earlier_quotas_and_earlier_scheduled_changes():
    """At 50 alice had 5, bob's 9 was scheduled for 1000 and dora's 2 for 3000.

    Since then alice got 7, carol 1, bob another 8 for 1000, alice 8 for 2000, and dora's was cancelled.
    """
    dora = QuotaEntity("dora")
    past = timeline((ALICE, 5.0, 0), (BOB, 9.0, 1000), (dora, 2.0, 3000))
    quotas = timeline((ALICE, 5.0, 0), (BOB, 9.0, 1000), (ALICE, 7.0, 60), (CAROL, 1.0, 70), (BOB, 8.0, 1000))
    quotas.add(QuotaChange(ALICE, Quota(8.0), 2000))
    steps = rollback_plan(past, 50, quotas, 100)
    assert summary(steps) == [
        ("~", ALICE, Quota(7.0), Quota(5.0)),
        ("-", CAROL, Quota(1.0), None),
        ("-", ALICE, Quota(8.0), None),
        ("+", BOB, None, Quota(9.0)),
        ("+", dora, None, Quota(2.0)),
    ]
    assert steps[2].record == QuotaRecord(ALICE, 8.0, effective_at=2000, cancelled=True)
    assert [step.record.effective_at for step in steps[3:]] == [1000, 3000]
    assert [(change.entity, change.quota.rate) for change in quotas.scheduled(100)] == [(BOB, 8.0), (ALICE, 8.0)]


BURST = QuotaChange(ALICE, Quota(5.0, 50.0), 1000, ("controller_mutation_burst",), scheduled=True)


def with_burst(*changes):
    quotas = timeline(*changes)
    quotas.add(BURST)
    return quotas


@pytest.mark.parametrize(
    ("now", "later", "steps"),
    [
        (5.0, 5.0, []),
        (20.0, 5.0, [(None, Quota(20.0)), (1000, Quota(5.0, 50.0))]),
        (20.0, 20.0, [(None, Quota(20.0)), (1000, Quota(20.0, 50.0))]),
    ],
)
def test_a_scheduled_option_is_set_as_a_whole_only_where_the_file_changes_the_rest(now, later, steps):
    """Alice has 5 and is to have a burst of 50 from 1000 on; the file has a rate now, and one from then on."""
    wanted = [QuotaRecord(ALICE, now), QuotaRecord(ALICE, later, 50.0, effective_at=1000)]
    records = [step.record for step in plan(wanted, with_burst((ALICE, 5.0, 0)), 10)]
    assert [(record.effective_at, record.quota) for record in records] == steps
    assert all(record.altered_configs is None for record in records)


def test_a_rollback_restores_a_scheduled_option_as_an_option():
    """Since then alice got 20; in the second case the option was cancelled, too."""
    past = with_burst((ALICE, 5.0, 0))
    (rate,) = rollback_plan(past, 50, with_burst((ALICE, 5.0, 0), (ALICE, 20.0, 60)), 100)
    assert rate.record == QuotaRecord(ALICE, 5.0)
    cancelled = timeline((ALICE, 5.0, 0), (ALICE, 20.0, 60))
    assert [step.record for step in rollback_plan(past, 50, cancelled, 100)] == [
        QuotaRecord(ALICE, 5.0),
        QuotaRecord(ALICE, 5.0, 50.0, effective_at=1000, altered_configs=["controller_mutation_burst"]),
    ]


DOCUMENT = """\
quotas:
- entity: {user: alice}
  controller_mutation_rate: 5
  controller_mutation_burst: 100.0
  max_debt_ms: 60000
  shadow: false
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
    names += ("\x1b[31m", "\x07\x7f", "\x85", "\x9b1m", "\u2028", "\u202e", "\ufeff", "\r", "\t", "\U0001f4a9")
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
        (
            "{entity: {client: a}, controller_mutation_rate: 1}",
            ".entity.client: unknown key; known are client-id, user",
        ),
        (f"{{{ENTRY}, max_dept_ms: 2}}", ".max_dept_ms: unknown key; known are altered_by, "),
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
                ("1.0e+999", 'number out of range (value: "1.0e+999")'),
                ("1_000", 'expected float | null, got str (value: "1_000")'),
                ("inf", "expected float <= 1.797"),
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
        (b"quota: []\n", "quota: unknown key; known are quotas"),
        (b"- a\n", "a list; write it below a line 'quotas:'"),
        (b"quotas: [\n", "line 2, column 1: not YAML: did not find expected node content"),
        (b"quotas:\n- {comment: a, comment: b}\n", "line 2, column 3: not YAML: comment is given twice"),
        (b"quotas:\n- {entity: {}, ~: 1, null: 2}\n", "line 2, column 3: not YAML: null is given twice"),
        (b"quotas:\n- *x\n", "line 2: aliases are not supported; write the value again"),
        (b"quotas: &x\n- *x\n", "line 2: aliases are not supported; write the value again"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff\xfe", "value: not UTF-8 (byte 0xff at 0)"),
        (b'{"entity"', "line 1: value: not JSON: "),
        (b'\n{"entity": {"usr": "a"}}', "line 2: entity.usr: unknown key; known are client-id, user"),
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


@pytest.mark.parametrize(
    "name", ["yes", "NO", "on", "True", "NULL", "12", "010", "1_000", "0x1f", "1:30", "1e5", ".inf", "2026-11-29", "="]
)
@pytest.mark.parametrize("field", ["user", "client-id"])
def test_a_name_in_yaml_is_what_is_written(name, field):
    """YAML 1.1 would read a bool, null, a number or a date."""
    content = f"quotas:\n- entity: {{{field}: {name}}}\n  controller_mutation_rate: 1\n  shadow: null\n"
    (record,) = read_quota_file(content.encode(), "f")
    assert (record.entity.names, record.quota) == ({field: name}, Quota(1.0))


CONFIGS = ("controller_mutation_rate", "controller_mutation_burst", "max_debt_ms")
WHOLE = st.none() | st.builds(
    Quota, st.sampled_from([1.0, 2.0]), st.sampled_from([None, 10.0]), st.sampled_from([None, 7])
)
CHANGES = st.lists(
    st.tuples(WHOLE, st.integers(0, 12), st.none() | st.lists(st.sampled_from(CONFIGS), min_size=1, unique=True)),
    max_size=6,
)


@given(
    CHANGES, WHOLE, st.lists(st.sampled_from(CONFIGS), min_size=1, unique=True), st.integers(4, 6), st.integers(1, 5)
)
def test_a_change_for_some_time_leaves_what_would_be_in_force_without_it(changes, quota, names, at, lasting):
    """Whatever is scheduled before, within and after its time; until then, nothing else changes its configs."""
    without, with_it, until = QuotaTimeline(), QuotaTimeline(), at + lasting
    for held, moment, altered in changes:
        change = QuotaChange(ALICE, held, moment, altered and tuple(altered), scheduled=moment > 3)
        without.add(change)
        with_it.add(change)
    assume("controller_mutation_rate" in names if quota is None or not without.latest(ALICE, at) else True)
    record = replace(QuotaRecord.of(ALICE, quota), effective_at=at, altered_configs=names, comment="a migration")
    records = [record, *ending(record, until, without, at)]
    assert {each.comment for each in records} == {"a migration"}
    for each in records:
        with_it.add(to_change(each, 3))

    def in_force(timeline, moment):
        change = timeline.latest(ALICE, moment)
        return change.quota if change else None

    assert [in_force(with_it, moment) for moment in range(until, 14)] == [
        in_force(without, moment) for moment in range(until, 14)
    ]
    if "controller_mutation_rate" in names:
        for moment in range(at, until):
            present = in_force(with_it, moment)
            assert (present and [present.configs[name] for name in names]) == (
                quota and [quota.configs[name] for name in names]
            )
