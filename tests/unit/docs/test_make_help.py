"""The help of `make` fits a terminal of 80 columns."""

import re
import subprocess

from tests.support.checkout import CHECKOUT

MAKEFILE = (CHECKOUT / "Makefile").read_text()
HELP = subprocess.run(["make"], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout


def test_a_line_of_the_help_has_at_most_80_columns():
    assert [line for line in HELP.splitlines() if len(line) > 80] == []


def test_the_help_names_each_target_that_a_person_may_type():
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert sorted(re.findall(r"^  ([a-z-]+) +\S", HELP, re.MULTILINE)) == sorted(phony.split())
