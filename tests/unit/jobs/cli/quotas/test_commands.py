"""The quotas in force, and their history, as tables of a terminal of 80 columns."""

import json
import sys
from unittest.mock import Mock

import pytest

from jobs.cli.quotas.commands import print_quotas
from quota.kafka.quotas import log as quota_log
from quota.planning.quota_file import DescribedQuota
from quota.records.entity import QuotaEntity
from quota.records.quota_log import (
    CallbackRecord,
    CallbackSetting,
    Cluster,
    ClusterRecord,
    QuotaLogEntry,
    QuotaRecord,
    ResetRecord,
    Window,
)
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
