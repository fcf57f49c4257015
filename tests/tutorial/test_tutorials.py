"""The pages of `docs/tutorial` run as printed, at night; with each change, their commands are only read."""

import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from jobs.installation import jars_folder
from jobs.sandbox.broker import Broker, free_port
from tests.support.checkout import CHECKOUT
from tests.support.waiting import until
from tests.tutorial.page import Session, steps
from tests.unit.docs.test_commands_on_pages import calls, problem

_PROGRAM = [sys.executable, "-u", "-m", "jobs"]
_DECIDES = re.compile(r"^[1-9][\d,]* decisions?; ", re.MULTILINE)
"""The first totals with decisions: before, a client may wait longer than its time limit on a busy machine."""
_LEADS = re.compile(r"gateway: (\S+) forwards to (\S+)")


def test_the_pages_are_those_that_are_run_here():
    assert {page.stem for page in (CHECKOUT / "docs" / "tutorial").glob("*.md")} == {"adopt", "first-rejection"}


@pytest.mark.parametrize("page", ["adopt", "first-rejection"])
def test_the_commands_of_a_page_exist_and_bash_reads_them(page):
    commands = "".join(step.commands for step in steps(page))
    subprocess.run(["bash", "-n"], input=commands, text=True, check=True)
    problems = [problem(words) for words in calls(f"```sh\n{commands}```")]
    assert len(problems) > 5
    assert set(problems) == {None}


@contextmanager
def running(folder):
    """Run everything inside the block, until Ctrl-C; yields what it has printed when it decides."""
    log = folder / "run.log"
    with log.open("wb") as out, subprocess.Popen([*_PROGRAM, "run"], cwd=folder, stdout=out, stderr=out) as run:
        try:
            until(lambda: _DECIDES.search(log.read_text()) or run.poll() is not None, 240)
            yield log.read_text()
            run.send_signal(signal.SIGINT)
            assert run.wait(120) == 0
        finally:
            run.kill()
    left = subprocess.run(["pgrep", "-f", f"java.*{folder}"], capture_output=True, text=True, check=False)
    assert left.stdout == ""


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_each_command_of_first_rejection_prints_what_the_page_says_and_the_next_run_continues(tmp_path, monkeypatch):
    """The folder has what a checkout has after `make`."""
    start, *rest = steps("first-rejection")
    assert start.commands == "make run\n"
    monkeypatch.setenv("LOGNAME", "ann")  # the author of quota changes
    (tmp_path / ".jars").symlink_to(CHECKOUT / ".jars")
    with running(tmp_path) as printed:
        gateway, broker = _LEADS.search(printed).groups()
        activate = f'export KAFKA_BOOTSTRAP_SERVERS={broker}; mutation-quota() {{ {" ".join(_PROGRAM)} "$@"; }}'
        session = Session(tmp_path, {". .venv/bin/activate": activate, "127.0.0.1:19092": gateway})
        for step in rest:
            session.run(step)
    assert "adminclient-1" in (tmp_path / "report.html").read_text()
    with running(tmp_path):
        (history,) = [step for step in rest if step.commands.startswith("mutation-quota quotas history")]
        session.run(history)


@pytest.fixture
def cluster(base_settings, tmp_path):
    """The address of a cluster that knows nothing of this project."""
    with Broker(tmp_path / "cluster", jars_folder(base_settings.broker.jars)) as broker:
        yield broker.address


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_each_command_of_adopt_prints_what_the_page_says(cluster, tmp_path):
    (tmp_path / ".jars").symlink_to(CHECKOUT / ".jars")
    gateway, metrics = free_port(), free_port()
    program = f'mutation-quota() {{ {sys.executable} -u -m jobs "$@"; }}'
    replaced = {
        "cat > mutation-quota.toml": f"{program}\ncat > mutation-quota.toml",
        'bootstrap_servers = "kafka-1:9092"': f'bootstrap_servers = "{cluster}"',
        "19092=kafka-1:9092": f"{gateway}={cluster}",
        "127.0.0.1:19092": f"127.0.0.1:{gateway}",
        "9599": str(metrics),
        # The first decision of a young JVM may take longer than the default on a busy machine.
        "metrics.port=0 gateway": "metrics.port=0 --set gateway.decision_timeout_seconds=60 gateway",
    }
    with Session(tmp_path, replaced) as session:
        for step in steps("adopt"):
            session.run(step)
