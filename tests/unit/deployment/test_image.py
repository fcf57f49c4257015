"""The images: a linter accepts them, they contain the files of `make package`, and they run unprivileged."""

import subprocess
import sys
from pathlib import Path

from tests.support.checkout import CHECKOUT

OWN = CHECKOUT / "conf/containers/Dockerfile"
HADOLINT = Path(sys.executable).parent / "hadolint"


def test_the_linter_reports_nothing():
    command = [HADOLINT, "--failure-threshold", "style", OWN]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_it_runs_as_a_user_without_a_name_under_an_init_that_forwards_signals():
    lines = OWN.read_text().splitlines()
    assert {"USER 10001:10001", 'ENTRYPOINT ["tini", "--", "mutation-quota"]'} <= set(lines)
