"""The errors of `mutation-quota recommend` for impossible values."""

import pytest
from typer.testing import CliRunner

from jobs.__main__ import app
from quota.errors import BadInput


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--capacity", "0"], "--capacity 0: expected mutations per second, above 0"),
        (["--capacity", "inf"], "--capacity inf: expected mutations per second, above 0"),
        (["--capacity", "9", "--reserve", "1"], "--reserve 1: expected a share of at least 0 and below 1"),
        (["--capacity", "9", "--reserve", "nan"], "--reserve nan: expected a share of at least 0 and below 1"),
        (["--capacity", "9", "--over-allocation", "nan"], "--over-allocation nan: expected a number of at least 1"),
        (["--capacity", "9", "--requests", "nowhere.jsonl"], "nowhere.jsonl: No such file or directory"),
    ],
)
def test_impossible_values_are_reported(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["recommend", *options])
    assert isinstance(done.exception, BadInput)
    assert message in str(done.exception)
