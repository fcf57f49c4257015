"""The quota that applies, and the history of quotas, as tables of a terminal of 80 columns."""

import json
import sys

import pytest

from jobs.cli.output import print_text
from jobs.cli.quotas.commands import history_entries, print_history
from jobs.cli.quotas.resolve import print_resolution
from jobs.cli.quotas.text import print_quotas
from quota.admission.policy import Policy
from quota.admission.resolve import resolve_quota
from quota.callbacks.timeline import CallbackTimeline
from quota.kafka.quotas import log as quota_log
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
from quota.settings import Settings
from quota.timeline.change import QuotaChange, to_change
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
    """Return the printed lines, on a terminal of 80 columns or into a pipe."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")  # the same text without bold headings

    def _lines(show, *args, on_terminal=True):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: on_terminal)
        show(*args)
        return capsys.readouterr().out.splitlines()

    return _lines


def written(records):
    return [QuotaLogEntry(offset, 1000 + offset, record) for offset, record in enumerate(records)]


def test_each_change_is_a_row_with_what_is_different(lines_of):
    printed = lines_of(print_history, list(history_entries(written(RECORDS), None)), on_terminal=False)
    rows = [line.split("  ", maxsplit=1) for line in printed]
    assert [row[0] for row in rows] == ["TIME", *(f"1970-01-01T00:00:01.00{offset}Z" for offset in range(8))]
    assert [" ".join(row[1].split()) for row in rows[1:]] == [
        "ann alice / - rate 5, burst 1000, max debt 1 min agreed with the platform team on Monday",
        "- alice / - rate 5 -> 7.5, max debt 1 min -> none, shadow no -> yes",
        "- <default> / <default> rate 2, from 2096-10-02T07:06:40.000Z on",
        "- <default> / <default> change scheduled for 2096-10-02T07:06:40.000Z cancelled",
        "- alice / - removed",
        "- - buckets with user 'alice' reset",
        "- - callback: groups.Callback file=x",
        "- - cluster: 2 topics, 3 partitions",
    ]


@pytest.fixture
def resolved(lines_of):
    quotas = CallbackTimeline(Settings().quota.callbacks)
    for entry in written(RECORDS[:3]):
        quotas.add(to_change(entry.record, entry.timestamp))

    def lines(user, **options):
        settings = Settings(quota=options)
        resolution = resolve_quota(user, "app", 2000, quotas, Policy.of(settings))
        levels = quotas.timeline.levels(user, "app", 2000)
        return lines_of(print_resolution, resolution, levels, settings.quota.window)

    return lines


def test_the_quota_that_applies_precedes_its_level(resolved):
    assert resolved("alice") == [
        "Quota:        7.5 mutations/s, set for user-principal 'alice' since",
        "              1970-01-01T00:00:01.001Z",
        "Burst:        1000 mutations at once (its own)",
        "Bucket:       of user 'alice', shared by all their client-ids",
        "Shadow:       only reported: requests over the quota are admitted",
        "",
        "LEVEL  USER       CLIENT-ID  RATE/S  BURST  MAX DEBT  SINCE",
        "    1  alice      app             -      -         -  -",
        "    2  alice      <default>       -      -         -  -",
        "    3  alice      -             7.5   1000         -  1970-01-01T00:00:01Z",
        "    4  <default>  app             -      -         -  -",
        "    5  <default>  <default>       -      -         -  -",
        "    6  <default>  -               -      -         -  -",
        "    7  -          app             -      -         -  -",
        "    8  -          <default>       -      -         -  -",
    ]


LONG = QuotaEntity("svc-payments-orchestrator-eu", "payments-orchestrator-admin-7f9c")


def test_a_list_of_quotas_with_a_long_name_lacks_columns_and_says_which(lines_of):
    default, own = QuotaChange(LONG, Quota(5.0), 1000), QuotaChange(ALICE, Quota(7.5, 1000.0, 60_000), 2000)
    assert lines_of(print_quotas, [default], [own], Window()) == [
        "USER                          CLIENT-ID                         RATE/S  BURST",
        "svc-payments-orchestrator-eu  payments-orchestrator-admin-7f9c       5      -",
        "Not shown: MAX DEBT, SHADOW, SINCE (wider terminal, or --output json)",
        "Scheduled changes:",
        "USER   CLIENT-ID  RATE/S  BURST  MAX DEBT  SHADOW  FROM",
        "alice  -             7.5   1000     1 min  no      1970-01-01T00:00:02Z",
        "BURST -: the default, 11 x 1 s of the rate; MAX DEBT -: no bound",
    ]


def test_defaults_are_explained_only_if_a_quota_has_them(lines_of):
    own = QuotaChange(ALICE, Quota(7.5, 1000.0, 60_000), 2000)
    assert lines_of(print_quotas, [own], [], Window()) == [
        "USER   CLIENT-ID  RATE/S  BURST  MAX DEBT  SHADOW  SINCE",
        "alice  -             7.5   1000     1 min  no      1970-01-01T00:00:02Z",
    ]


def test_a_client_without_a_quota_is_unlimited(resolved):
    assert resolved("bob")[0] == "Quota:        unlimited: none of the eight levels has a quota"
    assert resolved("bob", exempt_users=["bob"]) == ["Quota:        unlimited: the user is exempt (quota.exempt_users)"]


def test_a_sentence_is_broken_at_spaces_and_between_configs_on_a_terminal_alone(lines_of):
    configs = "controller_mutation_rate=5.0,controller_mutation_burst=1000.0,max_debt_ms=60000,shadow=true"
    text = f"Updated: {configs} from 12,000 on."
    assert lines_of(print_text, text, on_terminal=False) == [text]
    assert lines_of(print_text, text) == [
        "Updated: controller_mutation_rate=5.0,controller_mutation_burst=1000.0,",
        "  max_debt_ms=60000,shadow=true from 12,000 on.",
    ]


def test_the_history_of_a_period_has_the_latest_changes_and_tells_how_many_are_left_out(monkeypatch):
    class Log:
        entries = written([QuotaRecord(ALICE, float(rate)) for rate in range(1, 7)])  # at 1000 to 1005 ms

    monkeypatch.setattr(quota_log, "read_log", lambda *_, **__: Log)
    period = ("--from", "1970-01-01T00:00:01.001", "--to", "1970-01-01T00:00:01.005")
    done = run("quotas", "history", *period, "--limit", "3", "--output", "json")
    document = json.loads(done.stdout)
    assert [change["timestamp"] for change in document["changes"]] == [1002, 1003, 1004]
    assert document["changes"][0]["before"]["controller_mutation_rate"] == 2.0  # by the change before
    assert (document["left_out"], done.stderr) == (1, "and 1 earlier change (--limit)\n")
