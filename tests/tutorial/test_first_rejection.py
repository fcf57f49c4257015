"""`docs/tutorial/first-rejection.md` runs as printed, together with `mutation-quota run`."""

import re
import signal
import subprocess
import sys

from tests.support.checkout import CHECKOUT
from tests.support.waiting import until
from tests.tutorial.page import Session, steps

_DECIDES = re.compile(r"^[1-9][\d,]* decisions?; ", re.MULTILINE)
"""The first totals with decisions: before, a client may wait longer than its time limit on a busy machine."""
_LEADS = re.compile(r"gateway: (\S+) forwards to (\S+)")


def test_each_command_prints_what_the_page_says(tmp_path, monkeypatch):
    """The folder has what a checkout has after `make`."""
    start, *rest = steps("first-rejection")
    assert start.commands == "make run\n"
    monkeypatch.setenv("LOGNAME", "ann")  # the author of quota changes
    (tmp_path / ".jars").symlink_to(CHECKOUT / ".jars")
    log, program = tmp_path / "run.log", [sys.executable, "-u", "-m", "jobs"]
    with log.open("wb") as out, subprocess.Popen([*program, "run"], cwd=tmp_path, stdout=out, stderr=out) as run:
        try:
            until(lambda: _DECIDES.search(log.read_text()) or run.poll() is not None, 240)
            gateway, broker = _LEADS.search(log.read_text()).groups()
            activate = f'export KAFKA_BOOTSTRAP_SERVERS={broker}; mutation-quota() {{ {" ".join(program)} "$@"; }}'
            with Session(tmp_path, {". .venv/bin/activate": activate, "127.0.0.1:19092": gateway}) as session:
                for step in rest:
                    session.run(step)
            run.send_signal(signal.SIGINT)
            assert run.wait(120) == 0
            left = subprocess.run(["pgrep", "-f", f"java.*{tmp_path}"], capture_output=True, text=True, check=False)
            assert left.stdout == ""
        finally:
            run.kill()
    assert (tmp_path / "report.html").stat().st_size > 50_000
