"""Arguments that are rejected before any cluster is contacted, and outputs with counts."""

from unittest.mock import Mock

import pytest

from jobs.cli.quotas.changes import tally
from jobs.cli.quotas.kafka_configs import ConfigChange
from jobs.status import assembly
from quota.errors import MutationQuotaError, NotFound
from quota.kafka.quotas import log
from quota.planning.plan import Step
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Quota, QuotaRecord
from tests.support.factories import timeline
from tests.support.programs import run

ALTER = ["quotas", "alter"]
RATE = ["--add-config", "controller_mutation_rate=5"]
SCHEDULE = [*ALTER, "--user", "alice", *RATE, "--effective-at"]
SHOW = ["config", "describe", "--set"]
RECOMMEND = ["recommend", "--capacity", "9"]


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["dead-letters", "describe", "foo"], "'foo' is not the id of a dead letter: expected topic-partition-offset"),
        (["status", "--metrics", "foo:65536"], "--metrics foo:65536: expected HOST:PORT"),
        (["status", "--timeout", "inf"], "--timeout inf: expected a number, 0.1 to 86400"),
        (["callback", "publish-metadata", "--source-server", ""], "--source-server is empty: expected HOST:PORT"),
        (["broker", "--port", "0", "--data", "/dev/null"], "cannot create the data folder /dev/null: File exists"),
        (["quotas", "describe", "-o", "xml"], "--output xml: expected table, json, yaml or jsonl"),
        (["observe", "import", "/etc"], "/etc: a folder; name its files, as in /etc/*"),
        (["observe", "follow", "page.html"], "page.html: not a request log, no line has 'Completed request:'"),
        (["observe", "import", "page.html", "--snapshot", "page.html"], "page.html: not a file of mutation-quota"),
        (["callback", "alter", "--class", "nope"], "--class nope is not allowed by the settings"),
        (["dead-letters", "list", "--from", "-1h", "--to", "-2h"], "--from -1h must be before --to -2h"),
        (["simulate", "-", "--quotas", "-"], "-: standard input can be only one of the files"),
        *[
            (["explain", *given], "which decision? give its ID, or --last")
            for given in ([], ["--user", "alice"], ["mutation-requests-0-1", "--last"], ["x-0-1", "--topic", "t"])
        ],
        (["quotas", "push", "--yes", "--repair"], "--repair: only with --follow"),
        (
            ["quotas", "push", "--yes", "--follow", "--dry-run"],
            "--follow runs until it is stopped: leave out --dry-run and --output",
        ),
        (
            ["quotas", "pull", "--apply", "--yes", "--output-file", "quotas.yaml"],
            "--apply writes to the log, --output-file to a file",
        ),
        (["quotas", "pull", "--comment", "why"], "only with --apply"),
        (["quotas", "pull", "--output", "json"], "the content goes to standard output: add --output-file FILE"),
        (["report", "--quotas", "quotas.yaml"], "--quotas quotas.yaml: only with --requests"),
        ([*ALTER, "--user", "\udcff", *RATE], "argument '\\udcff': not UTF-8\n"),
        (["quotas", "alter", "--usr", "a"], "No such option: --usr (Possible options: --set, --user, --yes)\n"),
        (["quotas", "frobnicate"], "No such command 'frobnicate'. There are: alter, cancel, describe, resolve, "),
        (["quota", "describe"], "No such command 'quota'. Did you mean 'quotas'?\n"),
        (["quotas", "alter", "--user", "a", "--user", "b"], "--user takes one value, and is given 2 times"),
        (
            ["quotas", "alter", "--user=ok", "--entity-type", "users", "--entity-name", ""],
            "--user takes one value, and is given 2 times",
        ),
        (["decisions", "list", "-o", "json", "--output=yaml"], "--output takes one value, and is given 2 times"),
        (["--settings", "a", "--settings", "b", "status"], "--settings takes one value, and is given 2 times"),
        (["simulate", "requests.jsonl"], "Missing option '--quotas'. "),
        (["recommend", "--capacity", "inf"], "--capacity inf: expected mutations per second, above 0"),
        ([*RECOMMEND, "--reserve", "1"], "--reserve 1: expected a share of at least 0 and below 1"),
        ([*RECOMMEND, "--over-allocation", "nan"], "--over-allocation nan: expected a number of at least 1"),
        (  # before anything is said of the other file, which exists
            ["report", "--requests", "nowhere", "--output-file", "page.html"],
            "nowhere: No such file or directory\n",
        ),
        (["dead-letters", "resend", "requests-0-1", "--to", "-1h", "--yes"], "which dead letters"),
        (["dead-letters", "resend", "a-0-0", "b-0-0", "--value", "f"], "give exactly one id"),
        *[
            (command, "no terminal to ask for confirmation: add --yes to make the change, or --dry-run to preview it\n")
            for command in (
                ["dead-letters", "resend", "--from", "-1h"],
                ["quotas", "push"],
                ["buckets", "reset", "--user", "alice"],
                ["quotas", "rollback", "--at", "-1h"],
                ["enforce", "--reset-state"],
            )
        ],
        ([*SHOW, "quota.callback_class=os.system"], "callback os.system: TypeError: not a ClientQuotaCallback"),
        ([*SHOW, "quota.callback_configs.typo=1"], "callback quota.callbacks.default.DefaultQuotaCallback: takes no "),
        ([*SHOW, "broker.jars=/nope"], "no jars in /nope; set broker.jars to a folder with jars"),
        *[
            ([*ALTER, "--user", "a", "--add-config", f"controller_mutation_rate={value}"], f"above 0, got {value!r}")
            for value in ("nan", "inf", "0", ".5", "1_000", "\uff11\uff10", "")
        ],
        ([*ALTER, "--user", "alice", "--add-config", "producer_byte_rate=5"], "unknown config 'producer_byte_rate'"),
        ([*ALTER, *RATE], "whose quota?"),
        ([*ALTER, "--user", "", *RATE], "--user: the name is empty"),
        *[
            ([*SCHEDULE, text], f"--effective-at '{text}': expected a time")
            for text in ("20270101", "1798761600", "tomorrow")
        ],
        ([*SCHEDULE, "-1h"], "is in the past; a change can take effect now or later"),
    ],
)
def test_a_malformed_argument_is_one_line_with_exit_code_2_and_contacts_no_cluster(args, error, tmp_path):
    (tmp_path / "page.html").write_text("an old one")
    done = run(*args, "--set", "kafka.bootstrap_servers=127.0.0.1:1", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mutation-quota: ")
    assert error in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "args",
    [["describe"], ["push", "--dry-run"], ["pull"], ["drift"], ["push", "--yes", "--follow"]],
    ids=" ".join,
)
def test_an_unreachable_cluster_is_one_line_with_exit_code_1(args):
    done = run("quotas", *args, "--bootstrap-server", "127.0.0.1:1", "--set", "kafka.timeout_seconds=0.1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "127.0.0.1:1" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["127.0.0.1:9464"]),
        (["--metrics", "a:1", "--metrics", "[::1]:2"], ["a:1", "[::1]:2"]),
    ],
)
def test_status_polls_the_endpoint_of_the_settings_unless_others_are_named(monkeypatch, options, expected):
    asked = Mock(side_effect=MutationQuotaError("asked"))
    monkeypatch.setattr(assembly, "read_status", asked)
    assert run("status", "--set", "metrics.port=9464", *options).stderr == "mutation-quota: asked\n"
    (_settings, polled, _timeout), _ = asked.call_args
    assert polled == expected


def test_a_config_to_delete_that_is_not_set_is_not_found():
    with pytest.raises(NotFound, match="max_debt_ms is not set and cannot be deleted"):
        ConfigChange.parse([], ["max_debt_ms"]).applied_to(None)


def test_scheduled_changes_come_after_the_line_that_says_that_no_quota_is_in_force(monkeypatch):
    scheduled = timeline((QuotaEntity("alice"), 5.0, 2000))
    monkeypatch.setattr(log, "read_log", lambda *_, **__: Mock(now=1500, timeline=scheduled))
    lines = run("quotas", "describe", "--user", "alice").stdout.splitlines()
    assert lines[:2] == ["No matching quota is in force.", "Scheduled changes:"]


def test_changes_are_counted_by_kind():
    alice, tomorrow = QuotaEntity("alice"), 86_400_000
    steps = [
        Step(QuotaRecord(alice, 5.0), None, Quota(5.0)),
        Step(QuotaRecord(alice, 5.0), Quota(1.0), Quota(5.0)),
        *[Step(QuotaRecord(alice, None), Quota(1.0), None)] * 2,
        Step(QuotaRecord(alice, 5.0, effective_at=tomorrow), None, Quota(5.0)),
        Step(QuotaRecord(alice, 5.0, effective_at=tomorrow, cancelled=True), Quota(5.0), None),
    ]
    assert tally(steps) == "1 added, 1 changed, 2 removed, 1 scheduled, 1 cancelled"
