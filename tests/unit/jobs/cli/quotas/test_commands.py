"""The quotas in force, and their history, as tables of a terminal of 80 columns."""

import json
import shlex
import sys
from unittest.mock import Mock

import pytest

from jobs.cli.quotas.commands import print_quotas
from quota.kafka.quotas import log as quota_log
from quota.kafka.timing import now_ms
from quota.planning.quota_file import DescribedQuota, write_quota_file
from quota.records.entity import QuotaEntity
from quota.records.quota_log import (
    CallbackRecord,
    CallbackSetting,
    Cluster,
    ClusterRecord,
    Quota,
    QuotaLogEntry,
    QuotaRecord,
    ResetRecord,
    Window,
)
from quota.text import format_time
from tests.support.programs import run

ALICE, ANYBODY = QuotaEntity("alice"), QuotaEntity(None, None)
RECORDS = [
    QuotaRecord(ALICE, 5.0, 1000.0, 60_000, altered_by="ann", comment="agreed with the platform team on Monday"),
    QuotaRecord(ALICE, 7.5, 1000.0, None, shadow=True),
    QuotaRecord(ANYBODY, 2.0, effective_at=4_000_000_000_000),
    QuotaRecord(ANYBODY, 2.0, effective_at=4_000_000_000_000, cancelled=True),
    QuotaRecord(ALICE, None),
    ResetRecord({"user": "alice"}),
    CallbackRecord(CallbackSetting("groups.Callback", {"file": "x"})),
    ClusterRecord(Cluster({"a": [1, 2], "b": [1]})),
]


@pytest.fixture
def lines_of(monkeypatch, capsys):
    """Return the printed lines on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")  # the same text without bold headings

    def _lines(show, *args):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        show(*args)
        return capsys.readouterr().out.splitlines()

    return _lines


def written(records):
    return [QuotaLogEntry(offset, 1000 + offset, record) for offset, record in enumerate(records)]


def test_each_change_is_a_row_with_what_is_different(monkeypatch):
    monkeypatch.setattr(quota_log, "read_log", lambda *_, **__: Mock(entries=written(RECORDS)))
    rows = [line.split("  ", maxsplit=1) for line in run("quotas", "history").stdout.splitlines()]
    assert [row[0] for row in rows] == ["TIME", *(f"1970-01-01T00:00:01.00{offset}Z" for offset in range(8))]
    assert [" ".join(row[1].split()) for row in rows[1:]] == [
        "ann alice / - rate 5, burst 1000, max debt 1 min agreed with the platform team on Monday",
        "- alice / - rate 5 -> 7.5, max debt 1 min -> none, shadow no -> yes -",
        "- <default> / <default> rate 2, from 2096-10-02T07:06:40.000Z on -",
        "- <default> / <default> change scheduled for 2096-10-02T07:06:40.000Z cancelled -",
        "- alice / - removed -",
        "- - buckets with user 'alice' reset -",
        "- - callback: groups.Callback file=x -",
        "- - cluster: 2 topics, 3 partitions -",
    ]


LONG = QuotaEntity("svc-payments-orchestrator-eu", "payments-orchestrator-admin-7f9c")


OWN = DescribedQuota(ALICE, 7.5, 1000.0, 60_000, shadow=True, since=2000)


def test_a_list_of_quotas_with_a_long_name_lacks_columns_and_says_which(lines_of):
    long, removed = (
        DescribedQuota(LONG, 5.0, 1000.0, 60_000, since=1000),
        DescribedQuota(ALICE, None, effective_at=2000),
    )
    assert lines_of(print_quotas, [long, DescribedQuota(ALICE, 5.0)], [removed], Window()) == [
        "USER                          CLIENT-ID                         RATE/S  BURST",
        "svc-payments-orchestrator-eu  payments-orchestrator-admin-7f9c       5   1000",
        "alice                         -                                      5      -",
        "Not shown: MAX DEBT, SINCE (wider terminal, or --output json)",
        "Scheduled changes:",
        "USER   CLIENT-ID  RATE/S   FROM",
        "alice  -          removed  1970-01-01T00:00:02Z",
        "Without a BURST: the default, 11 x 1 s of the rate; without a MAX DEBT: no bound",
    ]


def test_defaults_are_explained_only_if_a_quota_has_them(lines_of):
    assert lines_of(print_quotas, [OWN], [], Window()) == [
        "USER   CLIENT-ID  RATE/S  BURST  MAX DEBT  SHADOW  SINCE",
        "alice  -             7.5   1000     1 min  yes     1970-01-01T00:00:02Z",
    ]


def test_the_history_of_a_period_has_the_latest_changes_and_tells_how_many_are_left_out(monkeypatch):
    entries = written([QuotaRecord(ALICE, float(rate)) for rate in range(1, 7)])  # at 1000 to 1005 ms
    monkeypatch.setattr(quota_log, "read_log", lambda *_, **__: Mock(entries=entries))
    period = ("--from", "1970-01-01T00:00:01.001", "--to", "1970-01-01T00:00:01.005")
    done = run("quotas", "history", *period, "--limit", "3", "--output", "json")
    document = json.loads(done.stdout)
    assert [change["timestamp"] for change in document["changes"]] == [1002, 1003, 1004]
    assert document["changes"][0]["before"]["controller_mutation_rate"] == 2.0  # by the change before
    assert (document["left_out"], done.stderr) == (1, "and 1 earlier change (--limit)\n")


HOUR = 3_600_000
RATE = ("--add-config", "controller_mutation_rate=7")
ODD = QuotaEntity("o'brien \x1b[31m", None)


@pytest.mark.parametrize(
    "entity", [ALICE, ANYBODY, ODD, QuotaEntity(client_id="etl")], ids=["user", "all", "odd", "client"]
)
@pytest.mark.parametrize(
    "change",
    [
        ("alter", "--delete-config", "controller_mutation_rate"),
        ("alter", *RATE),
        ("alter", "--add-config", "controller_mutation_rate=5"),  # as it is
        ("alter", *RATE, "--for", "30m"),
        ("alter", *RATE, "--effective-at", "+1d", "--output", "json"),
        ("rollback", "--at", "{at}", "--yes"),
        ("rollback", "--at", "{at}", "--dry-run"),
        ("apply", "{file}", "--yes"),
    ],
)
def test_a_change_names_what_stays_scheduled_and_the_command_that_cancels_it(topic, command, tmp_path, entity, change):
    """The entity had 4/s, has 5/s, and is to have 9/s in an hour, since it had 4/s."""
    now = now_ms()
    later = QuotaRecord(entity, 9.0, effective_at=now + HOUR)
    topic.write([QuotaRecord(entity, 4.0), later, QuotaRecord(ANYBODY, 3.0, effective_at=now + 2 * HOUR)], now - HOUR)
    topic.write([QuotaRecord(entity, 5.0)], now - HOUR // 2)
    file = tmp_path / "quotas.yaml"
    rest = [later] if entity == ANYBODY else [later, QuotaRecord(ANYBODY, 3.0, effective_at=now + 2 * HOUR)]
    file.write_text(write_quota_file([QuotaRecord(entity, 6.0), *rest]))
    words = [word.format(at=now - HOUR * 3 // 4, file=file) for word in change]
    options = entity.options if change[0] == "alter" else []

    _, errors = command("quotas", *words, *options, exit_code=3 if "--dry-run" in words else 0)

    assert "\x1b" not in errors
    (line,) = [line for line in errors.splitlines() if "still scheduled" in line and format_time(now + HOUR) in line]
    assert "becomes controller_mutation_rate=9.0" in line
    if entity is not ODD:  # whose name is escaped, for people to see
        command(*shlex.split(line.partition("mutation-quota ")[2]))
        assert (entity, now + HOUR, Quota(9.0)) not in topic.scheduled()


def test_the_only_scheduled_change_of_an_entity_is_cancelled_without_its_time(topic, command):
    """With several, their times are named; and so it is with the callback."""
    later = now_ms() + HOUR
    topic.write([QuotaRecord(ANYBODY, 3.0, effective_at=later), QuotaRecord(ALICE, None, effective_at=later + 1)])
    out, _ = command("quotas", "cancel", "--user", "alice")
    assert format_time(later + 1) in out
    _, error = command("quotas", "cancel", "--user", "alice", exit_code=4)
    assert "user-principal 'alice' has no scheduled change" in error
    topic.write([QuotaRecord(ANYBODY, 4.0, effective_at=later + 2)])
    _, error = command("quotas", "cancel", *ANYBODY.options, exit_code=2)
    assert f"give --effective-at with one of {format_time(later)}, {format_time(later + 2)}" in error
    assert [moment for _, moment, _ in topic.scheduled()] == [later, later + 2]

    command("callback", "alter", "--class", "quota.callbacks.default.DefaultQuotaCallback", "--effective-at", "+1h")
    _, warning = command("callback", "alter", "--reset")
    assert "still scheduled: the callback is quota.callbacks.default.DefaultQuotaCallback from" in warning
    command(*shlex.split(warning.partition("mutation-quota ")[2]))
    _, error = command("callback", "cancel", exit_code=4)
    assert "the callback has no scheduled change" in error


def test_a_quota_is_raised_for_an_hour(topic, command):
    """Its burst stays, also where it is altered within the hour; a rate that is scheduled within it follows it."""
    now = now_ms()
    topic.write([QuotaRecord(ALICE, 5.0, 50.0), QuotaRecord(ALICE, 6.0, effective_at=now + HOUR // 2)], now - HOUR)
    raised, warning = command("quotas", "alter", "--user", "alice", *RATE, "--for", "1h", "--comment", "a migration")
    end = topic.entries[-1].record.effective_at
    assert now + HOUR <= end <= now_ms() + HOUR
    assert f"then controller_mutation_rate=6.0 from {format_time(end)}, on k:9092" in raised
    assert f"the change scheduled for {format_time(now + HOUR // 2)} is cancelled, and made when this one" in warning
    command("quotas", "alter", "--user", "alice", "--add-config", "controller_mutation_burst=70")
    held = [topic.timeline.latest(ALICE, at).quota for at in (now_ms(), end - 1, end)]
    assert held == [Quota(7.0, 70.0), Quota(7.0, 70.0), Quota(6.0)]
    assert {entry.record.comment for entry in topic.entries[2:5]} == {"a migration"}

    document, _ = command(
        "quotas", "alter", "--user", "bob", *RATE, "--for", "90s", "--effective-at", "+1d", "-o", "json"
    )
    starts, ends = json.loads(document)["changes"]
    assert ends["effective_at"] - starts["effective_at"] == 90_000
    assert [change["after"] for change in (starts, ends)] == [{"controller_mutation_rate": 7.0}, None]
    shorter, _ = command("quotas", "alter", "--user", "alice", *RATE, "--for", "5m")
    assert shorter.startswith("Unchanged")
    command("quotas", "alter", "--user", "alice", *RATE, "--for", "2h")
    (extended,) = [(at, quota.rate) for entity, at, quota in topic.scheduled() if entity == ALICE]
    assert (extended[0] > end, extended[1]) == (True, 6.0)
    for wrong in ("0h", "1", "-1h", "1w", "999999999d"):
        assert "--for" in command("quotas", "alter", "--user", "alice", *RATE, f"--for={wrong}", exit_code=2)[1]


@pytest.mark.parametrize(
    "option", ["shadow=true", "max_debt_ms=7", "controller_mutation_burst=70", "max_request_mutations=7"]
)
def test_an_option_for_some_time_ends_also_if_a_removal_before_its_end_is_cancelled(topic, command, option):
    topic.write([QuotaRecord(ALICE, 5.0), QuotaRecord(ALICE, None, effective_at=now_ms() + HOUR)], now_ms() - HOUR)
    told, _ = command("quotas", "alter", "--user", "alice", "--add-config", option, "--for", "2h")
    assert ", then removed from" in told
    (removal, end) = [(at, quota) for _, at, quota in topic.scheduled()]
    assert end[1] is None
    command("quotas", "cancel", "--user", "alice", "--effective-at", str(removal[0]))
    assert topic.timeline.latest(ALICE, end[0]).quota == Quota(5.0)


def test_an_export_says_that_it_leaves_out_what_is_scheduled(topic, command):
    topic.write([QuotaRecord(ALICE, 5.0), QuotaRecord(ALICE, None, effective_at=now_ms() + HOUR)])
    exported, warning = command("quotas", "export")
    assert (exported.count("entity:"), warning.count("1 scheduled change left out")) == (1, 1)
    assert command("quotas", "export", "--at", "+2h")[1] == ""


def test_the_quota_that_applies_is_shown_with_what_is_scheduled_for_its_levels(topic, command):
    later = now_ms() + HOUR
    topic.write([QuotaRecord(QuotaEntity(None), 3.0), QuotaRecord(QuotaEntity(None), None, effective_at=later)])
    topic.write([QuotaRecord(QuotaEntity("bob"), 9.0, effective_at=later)])
    text, _ = command("quotas", "resolve", "--user", "alice")
    assert f"Scheduled: the default user-principal is removed from {format_time(later)} on" in " ".join(text.split())
    assert "bob" not in text
    document, _ = command("quotas", "resolve", "--user", "bob", "-o", "json")
    assert [change["effective_at"] for change in json.loads(document)["scheduled"]] == [later, later]
