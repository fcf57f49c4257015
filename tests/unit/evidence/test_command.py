"""A program of the evidence writes a page only of runs that found nothing wrong."""

import json
import operator
import re
import signal
import sys

import pytest

from quota.errors import MutationQuotaError
from tests.evidence import command

TEMPLATE = "{{kills}} kills"


@pytest.fixture
def played(monkeypatch, tmp_path):
    """Return a function that runs a program with these results and options, and returns its exit code or message."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    template = tmp_path / "page.md.in"
    template.write_text(TEMPLATE)

    def _played(results, *options, merge=None):
        def play(*_):
            if isinstance(results, BaseException):
                raise results
            return results

        monkeypatch.setattr(sys, "argv", ["chaos", *options])
        try:
            command.run("chaos", play, template, command.Sections(["job", "brokers"], merge))
        except SystemExit as ended:
            return ended.code
        return 0

    return _played


def test_the_results_of_a_whole_run_are_a_page_and_its_json(played, tmp_path, capsys):
    assert played({"kills": 3, "wrong": []}, "--out", str(tmp_path / "docs")) == 0
    assert (tmp_path / "docs" / "chaos.md").read_text() == "3 kills"
    assert json.loads((tmp_path / "docs" / "chaos.json").read_text()) == {"kills": 3, "wrong": []}
    assert json.loads(capsys.readouterr().out) == {"kills": 3, "wrong": []}


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ({"kills": 3, "wrong": ["a decision is lost"]}, "chaos:\na decision is lost"),
        (MutationQuotaError("the broker does not start"), "chaos: the broker does not start"),
        (AssertionError("a debt is forgiven"), "chaos: a debt is forgiven"),
        (KeyboardInterrupt(), "chaos: interrupted; nothing was written"),
    ],
)
def test_a_run_that_fails_writes_no_page(played, tmp_path, results, message):
    assert played(results, "--out", str(tmp_path / "docs")) == message
    assert not (tmp_path / "docs").exists()


@pytest.mark.parametrize(
    ("part", "merge"), [(["--smoke"], None), (["--only", "job"], None), (["--only", "job"], operator.or_)]
)
def test_a_part_of_a_run_is_not_for_a_new_page(played, tmp_path, part, merge, capsys):
    assert played({"kills": 3}, "--out", str(tmp_path / "docs"), *part, merge=merge) == 2
    assert "--out writes " in capsys.readouterr().err
    assert played({"kills": 3}, *part, merge=merge) == 0


def test_sections_of_a_later_run_replace_theirs_on_a_page_with_their_own_day_and_commit(played, tmp_path, monkeypatch):
    page, commits = tmp_path / "chaos.json", iter(["6355cb84", "64418d57"])
    monkeypatch.setattr(command, "_this_run", lambda: {"commit": next(commits)})
    assert played({"kills": 3, "job": 3, "brokers": 9}, "--out", str(tmp_path), merge=operator.or_) == 0
    assert played({"kills": 4, "job": 4}, "--only", "job", "--out", str(tmp_path), merge=operator.or_) == 0
    runs = {"job": {"commit": "64418d57", "minutes": 0}, "brokers": {"commit": "6355cb84", "minutes": 0}}
    assert json.loads(page.read_text()) == {"kills": 4, "job": 4, "brokers": 9, "runs": runs}
    assert (tmp_path / "chaos.md").read_text() == "4 kills"


def test_a_run_is_identified_by_its_day_and_its_commit(played, capsys):
    assert played({}, merge=operator.or_) == 0
    run = json.loads(capsys.readouterr().out)["runs"]["job"]
    assert re.fullmatch(r"2\d{3}-\d\d-\d\d", run["date"])
    assert run["commit"] is None or re.fullmatch("[0-9a-f]{7,40}(-dirty)?", run["commit"])


def test_a_section_that_the_program_does_not_have_is_rejected(played, capsys):
    assert played({}, "--only", "audit") == 2
    assert "invalid choice: 'audit'" in capsys.readouterr().err
