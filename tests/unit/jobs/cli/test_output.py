"""The formats of printed data, how options choose them, and the width of text."""

import json
import math
import sys
from types import SimpleNamespace

import msgspec
import pytest
import yaml
from msgspec import structs

from jobs.cli.output import OutputOptions, fill, print_text
from jobs.cli.program import SECTIONS, Group
from jobs.status import assembly
from quota.errors import ClusterError
from quota.kafka import dead_letters, reading
from quota.kafka.brokers import cluster_quotas
from quota.kafka.dead_letters import StoredDeadLetter
from quota.kafka.timing import now_ms
from quota.planning.quota_file import write_quota_file
from quota.records.dead_letter import DeadLetter
from quota.records.entity import QuotaEntity
from quota.records.quota_log import CallbackRecord, CallbackSetting, QuotaRecord, ResetRecord, Window
from quota.records.record import Source
from tests.support.factories import decided, request_json
from tests.support.programs import run
from tests.support.request_log import created
from tests.support.tables import append_rows, decision_row, quota_change_row


class Fruit(msgspec.Struct):
    """An item."""

    name: str
    weight: float


class Basket(msgspec.Struct):
    """A document."""

    fruits: list[Fruit]
    left_out: int


BASKET = Basket([Fruit("pear", 1.5), Fruit("ὄ: -", 2.0)], 3)
AS_DATA = {"fruits": [{"name": "pear", "weight": 1.5}, {"name": "ὄ: -", "weight": 2.0}], "left_out": 3}


@pytest.fixture
def printed(capsys):
    def _print(*, items="fruits", **options):
        OutputOptions(**options).print(BASKET, lambda: sys.stdout.write("for people\n"), items=items)
        return capsys.readouterr().out

    return _print


def test_a_table_is_the_default(printed):
    assert printed() == printed(output="table") == "for people\n"


def test_json_and_yaml_are_one_object_with_a_named_list(printed):
    assert json.loads(printed(output="json")) == AS_DATA
    assert yaml.safe_load(printed(output="yaml")) == AS_DATA


@pytest.mark.parametrize(("items", "expected"), [("fruits", AS_DATA["fruits"]), (None, [AS_DATA])])
def test_json_lines_are_the_elements_of_the_list_or_a_document_without_a_list(printed, items, expected):
    assert [json.loads(line) for line in printed(output="jsonl", items=items).splitlines()] == expected


def test_a_line_is_not_broken_within_a_name():
    name = "a-name-with-hyphens-" * 5
    assert fill(f"see {name} there", "- ", "  ") == f"- see\n  {name}\n  there"


def test_a_sentence_is_broken_at_spaces_and_between_configs_on_a_terminal_alone(monkeypatch, capsys):
    configs = "controller_mutation_rate=5.0,controller_mutation_burst=1000.0,max_debt_ms=60000,shadow=true"
    text = f"Updated: {configs} from 12,000 on."
    print_text(text)
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_text(text)
    assert capsys.readouterr().out.splitlines() == [
        "Updated: controller_mutation_rate=5.0,controller_mutation_burst=1000.0,",
        "  max_debt_ms=60000,shadow=true from 12,000 on.",
    ]


EVIL = "evil\x1b[31m\x07\x9b1m\u202e\r\nmutation-quota: no problems"
"""A name that a terminal would obey, and that looks like a line of ours."""
BEFORE = now_ms() - 3_600_000
WITHOUT_STRANGERS = {
    "enforce", "audit", "applier", "gateway", "dashboard", "report", "run", "demo", "broker", "maintain",
    "config describe", "user-topics prepare", "buckets export", "buckets reset", "callback alter", "callback cancel",
    "callback publish-metadata", "observe follow", "observe snapshot", "quotas cancel", "capacity",
}  # fmt: skip
"""Commands whose output has no value of a client, of an author or of a broker."""
PRINTING = {
    "quotas alter": ["--user", EVIL, "--add-config", "controller_mutation_rate=7"],
    "quotas describe": [],
    "quotas resolve": ["--user", EVIL],
    "quotas history": [],
    "quotas validate": ["quotas.yaml"],
    "quotas apply": ["quotas.yaml", "--dry-run"],
    "quotas rollback": ["--at", str(BEFORE), "--remove-all", "--dry-run"],
    "quotas export": [],
    "quotas push": ["--dry-run"],
    "quotas pull": ["--apply", "--dry-run"],
    "quotas drift": [],
    "buckets list": [],
    "buckets describe": ["--user", EVIL, "--client", EVIL, "--mutations", "7"],
    "callback describe": [],
    "status": [],
    "explain": ["--last"],
    "decisions list": [],
    "decisions top": ["--from", "-2h"],
    "dead-letters list": [],
    "dead-letters describe": ["mutation-requests-0-7"],
    "dead-letters resend": ["mutation-requests-0-7"],
    "observe import": ["kafka-request.log"],
    "simulate": ["requests.jsonl", "--quotas", "quotas.yaml"],
    "backtest": [],
    "recommend": ["--capacity", "100"],
}
OF_KAFKA = {name for name in PRINTING if name.startswith(("quotas", "callback", "buckets describe"))} - {
    "quotas validate"
}
FILES = {"observe import", "quotas export"}
"""Commands that print a file."""


@pytest.fixture
def strangers(settings, tmp_path, topic, monkeypatch):
    """A deployment and files in which each name is evil."""
    entity = QuotaEntity(EVIL, EVIL)
    rejected = decided(4, at=BEFORE, state=-10.0, user=EVIL, client_id=EVIL, request_id=EVIL, offset=1)
    rejected = structs.replace(
        rejected,
        topics=[structs.replace(each, name=EVIL) for each in rejected.topics],
        quota_entity=entity,
        callback=EVIL,
        more_tags={EVIL: EVIL},
    )
    append_rows(settings, "decisions", decision_row(rejected))
    append_rows(settings, "quota_changes", quota_change_row(1, BEFORE - 1, entity=entity.key.decode(), comment=EVIL))
    append_rows(settings, "dead_letters")
    later = now_ms() + 3_600_000
    records = [QuotaRecord(entity, 5.0, altered_by=EVIL, comment=EVIL), QuotaRecord(QuotaEntity(EVIL), 5.0)]
    topic.write(records, BEFORE + 1)
    topic.write([QuotaRecord(QuotaEntity(EVIL), 9.0, effective_at=later, comment=EVIL)])
    topic.write([CallbackRecord(CallbackSetting(EVIL, {EVIL: EVIL}), effective_at=later), ResetRecord({EVIL: EVIL})])
    (tmp_path / "quotas.yaml").write_text(write_quota_file([QuotaRecord(entity, 7.0)]))
    request = {"topics": [{"name": EVIL, "partitions": 1}], "user": EVIL, "client_id": EVIL, "timestamp": BEFORE}
    bad = request | {"operation": EVIL, EVIL: 1}
    (tmp_path / "requests.jsonl").write_bytes(request_json(1, **request) + b"\n" + request_json(1, **bad))
    line = created("2026-11-22 17:39:50,000", (EVIL, 60), client_id=EVIL, principal=f"User:{EVIL}", totalTimeMs=0)
    (tmp_path / "kafka-request.log").write_bytes(line + line[:-60].replace(b"00,000", b"00,001") + EVIL.encode())
    value = request_json(1, operation=EVIL, user=EVIL, client_id=EVIL).decode().replace("\\u001b", "\x1b")
    letter = DeadLetter(error=f"value: {EVIL}", value=value, timestamp=BEFORE, source=Source("mutation-requests", 0, 7))
    stored = StoredDeadLetter(None, letter, BEFORE)
    monkeypatch.setattr(dead_letters, "read_dead_letters", lambda *_: (each for each in [stored]))
    cluster = SimpleNamespace(read=lambda: {entity: 8.0, QuotaEntity(EVIL): math.nan}, connection="k:9092")
    monkeypatch.setattr(cluster_quotas, "ClusterQuotas", lambda *_: cluster)
    monkeypatch.setattr(reading, "read_window", lambda *_: Window())
    monkeypatch.setattr(assembly, "read_cluster_facts", lambda _: raising(ClusterError(EVIL)))
    return tmp_path


def raising(error):
    raise error


def test_each_command_prints_values_of_strangers_or_does_not():
    commands = {
        f"{name} {inner}" if inner else name
        for section in SECTIONS.values()
        for name, command in section.items()
        for inner in (command.commands if isinstance(command, Group) else ("",))
    }
    assert {*PRINTING} | WITHOUT_STRANGERS == commands


@pytest.mark.parametrize("command", PRINTING)
def test_no_value_of_a_stranger_reaches_a_terminal_as_it_is(strangers, monkeypatch, command):
    """A file in a pipe has what was sent; all that people or programs read is escaped."""
    monkeypatch.setenv("TERM", "dumb")
    server = ["--bootstrap-server", "k:9092"] if command in OF_KAFKA else []
    where = [*server, "--set", f"storage.root={strangers}"]
    for shown in ("terminal", "pipe", *(() if command in FILES else ("json", "jsonl", "yaml"))):
        formatted = [] if shown in {"terminal", "pipe"} else ["--output", shown]
        done = run(*command.split(), *PRINTING[command], *formatted, *where, cwd=strangers, terminal=shown != "pipe")
        assert "evil" in done.stdout + done.stderr
        is_raw = shown == "pipe" and command in {"dead-letters describe", "observe import", "simulate"}
        printed = done.stderr + ("" if is_raw else done.stdout)
        kept = "\n\u202e" if formatted or command in {*FILES, "simulate"} else "\n"
        assert [character for character in printed if not character.isprintable() and character not in kept] == []
        assert "\nmutation-quota: no problems" not in printed
