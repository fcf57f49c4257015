"""The images: a linter accepts them, they contain the files of `make package`, and they run unprivileged."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.checkout import CHECKOUT

OWN = CHECKOUT / "conf/containers/Dockerfile"
HADOLINT = Path(sys.executable).parent / "hadolint"


def instructions(file):
    """Return the instructions of a Dockerfile in order, each as its name and the rest."""
    text = re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(" ".join(line.split()).split(" ", 1)) for line in text.splitlines() if line.strip()]


def lint(file):
    command = [HADOLINT, "--failure-threshold", "style", file]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_linter_reports_nothing():
    done = lint(OWN)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_linter_reports_a_fault(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN sudo apt-get install tini\n")
    done = lint(tmp_path / "Dockerfile")
    assert done.returncode == 1
    assert {"DL3004", "DL3006"} <= set(re.findall(r"DL\d+", done.stdout))


def test_it_runs_as_a_user_without_a_name_under_an_init_that_forwards_signals():
    last = dict(instructions(OWN))
    assert last["USER"] == "10001:10001"
    assert last["ENTRYPOINT"] == '["tini", "--", "mutation-quota"]'
