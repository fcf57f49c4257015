"""The unit of systemd: what systemd takes, and jobs that it can start."""

import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from jobs.cli.program import app
from tests.support.checkout import CHECKOUT
from tests.support.needs import need
from tests.unit.conf.chart import COMMANDS, PROBED

UNIT = CHECKOUT / "conf/systemd/mutation-quota@.service"


def read_unit():
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str
    unit.read_string(UNIT.read_text())
    return unit


def exec_start():
    return read_unit()["Service"]["ExecStart"]


def test_a_job_that_ends_with_an_error_is_started_again_however_often():
    """All errors but those of its settings, which have the exit code 2."""
    unit = read_unit()
    assert (unit["Unit"]["StartLimitIntervalSec"], unit["Service"]["Restart"]) == ("0", "on-failure")
    assert unit["Service"]["RestartPreventExitStatus"] == "2"


@pytest.mark.parametrize("name", [service for service in PROBED if service not in COMMANDS])
def test_each_job_has_its_own_unit(name):
    program, *words = exec_start().replace("%i", name).split()
    assert program == "/opt/kafka-mutation-quota/.venv/bin/mutation-quota"
    command = get_command(app).commands[words[0]]
    assert (words[0], words[1:]) == (name, ["--settings", f"/etc/mutation-quota/{name}.toml"])
    assert "--settings" in {option for param in command.params for option in param.opts}


def test_systemd_finds_nothing_wrong(tmp_path):
    analyze = shutil.which("systemd-analyze")
    need(analyze, "no systemd-analyze to check the unit (apt-get install systemd)")
    program = exec_start().split()[0]
    unit = UNIT.read_text().replace(program, str(Path(sys.executable).with_name("mutation-quota")))
    started = tmp_path / "mutation-quota@enforce.service"
    started.write_text(unit.replace("User=mutation-quota", "User=root"))
    done = subprocess.run([analyze, "verify", started], text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
