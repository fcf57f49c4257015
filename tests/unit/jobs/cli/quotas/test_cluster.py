"""`quotas push`, `pull` and `drift` without a cluster: rejected arguments, and messages."""

import pytest

from jobs.cli import options
from jobs.cli.options import ConfirmOptions
from jobs.cli.output import OutputFormat, OutputOptions
from quota.errors import BadInput, MutationQuotaError
from tests.support.programs import run

NOWHERE = ["--bootstrap-server", "127.0.0.1:1", "--set", "kafka.timeout_seconds=0.5"]


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["push"], "no terminal to ask for confirmation: add --yes to make the change, or --dry-run to preview it"),
        (["push", "--output", "json"], "a command that prints data cannot ask for confirmation: add --yes"),
        (["push", "--yes", "--repair"], "--repair: only with --follow"),
        (
            ["push", "--yes", "--follow", "--dry-run"],
            "--follow runs until it is stopped: leave out --dry-run and --output",
        ),
        (["push", "--yes", "--follow", "--output", "json"], "--follow runs until it is stopped"),
        (["push", "--follow"], "no terminal to ask for confirmation"),
        (["pull", "--apply"], "no terminal to ask for confirmation"),
        (
            ["pull", "--apply", "--yes", "--output-file", "quotas.yaml"],
            "--apply writes to the log, --output-file to a file",
        ),
        (["pull", "--comment", "why"], "only with --apply"),
        (["pull", "--output", "json"], "the content goes to standard output: add --output-file FILE"),
        (["export", "--output", "json"], "the content goes to standard output: add --output-file FILE"),
        (
            ["pull", "--output-file", "/nowhere/quotas.yaml"],
            "--output-file /nowhere/quotas.yaml: the folder /nowhere does not exist",
        ),
        (["pull", "--output-file", __file__], "the file exists; add --force to replace it"),
        (["drift", "--prune"], "No such option: --prune"),
        (["drift", "--set", "broker.jars=/nowhere"], "no jars in /nowhere; run make jars, or set broker.jars"),
    ],
)
def test_invalid_input_is_one_line_with_exit_code_2_and_contacts_no_cluster(args, error):
    done = run("quotas", *args, "--bootstrap-server", "127.0.0.1:1")
    assert (done.returncode, done.stdout) == (2, "")
    assert error in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("args", [["push", "--dry-run"], ["pull"], ["drift"], ["push", "--yes", "--follow"]])
def test_an_unreachable_cluster_is_one_line_with_exit_code_1(args):
    done = run("quotas", *args, *NOWHERE)
    assert (done.returncode, done.stdout) == (1, "")
    assert "127.0.0.1:1" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_declined_confirmation_changes_nothing(monkeypatch):
    monkeypatch.setattr(options.typer, "confirm", lambda _question, *, err: not err)
    with pytest.raises(MutationQuotaError, match="nothing was changed"):
        ConfirmOptions().confirm("Make these changes?")
    ConfirmOptions(yes=True).confirm("Make these changes?")


def test_on_a_terminal_the_option_yes_may_be_omitted(monkeypatch):
    monkeypatch.setattr(options.sys.stdin, "isatty", lambda: True, raising=False)
    ConfirmOptions().check()
    with pytest.raises(BadInput):
        ConfirmOptions().check(OutputOptions(OutputFormat.JSON))
