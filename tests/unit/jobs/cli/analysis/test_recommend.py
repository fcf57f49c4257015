"""`mutation-quota recommend`: what it says where it is asked for what cannot be."""

import pytest
from typer.testing import CliRunner

from jobs.__main__ import app
from quota.errors import BadInput


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "what can the controller take? give either --capacity or --experiment"),
        (["--capacity", "9", "--experiment", "x"], "give either --capacity or --experiment"),
        (["--capacity", "0"], "--capacity 0: expected mutations a second, above 0"),
        (["--capacity", "-1"], "--capacity -1: expected mutations a second, above 0"),
        (["--capacity", "nan"], "--capacity nan: expected mutations a second, above 0"),
        (["--capacity", "inf"], "--capacity inf: expected mutations a second, above 0"),
        (["--capacity", "9", "--reserve", "1"], "--reserve 1: expected a share from 0 to below 1"),
        (["--capacity", "9", "--reserve", "-0.1"], "--reserve -0.1: expected a share from 0 to below 1"),
        (["--capacity", "9", "--reserve", "nan"], "--reserve nan: expected a share from 0 to below 1"),
        (["--capacity", "9", "--over-allocation", "0.5"], "--over-allocation 0.5: expected a number of at least 1"),
        (["--capacity", "9", "--over-allocation", "nan"], "--over-allocation nan: expected a number of at least 1"),
        (["--experiment", "nowhere.json"], "--experiment nowhere.json: No such file or directory"),
        (["--experiment", "other.json"], "--experiment other.json: not the experiment.json of make experiment: Object"),
        (["--experiment", "nought.json"], "--experiment nought.json: not the experiment.json of make experiment: Exp"),
        (["--capacity", "9", "--output", "other.json"], "--output other.json: there is such a file; move it away"),
        (["--capacity", "9", "--output", "no/q.yaml"], "--output no/q.yaml: there is no folder no"),
        (["--capacity", "9", "--from", "noon"], "--from 'noon': expected a time"),
        (["--capacity", "9", "--requests", "nowhere.jsonl"], "nowhere.jsonl: No such file or directory"),
    ],
)
def test_what_cannot_be_is_said(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "nought.json").write_text('{"created_per_second": 5, "deleted_per_second": 0}')
    done = CliRunner().invoke(app, ["recommend", *options])
    assert isinstance(done.exception, BadInput)
    assert message in str(done.exception)
