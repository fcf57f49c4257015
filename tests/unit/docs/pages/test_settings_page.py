"""The reference of settings, from the models."""

import re

import pytest
from typer.main import get_command

from conf.docs.settings_page import READ_BY
from jobs.__main__ import app
from quota.settings import Settings

ROOT = get_command(app)
CLASSES = {"QuotaAdminClient"}


def is_program(name):
    """Whether words are a command or a group, with its options."""
    command = ROOT
    for word in name.split():
        if word.startswith("--"):
            if word not in {option for each in command.params for option in each.opts}:
                return False
        elif (command := getattr(command, "commands", {}).get(word)) is None:
            return False
    return True


def is_setting(name, section):
    parts = name.split(".") if "." in name else [section, name]
    return hasattr(getattr(Settings(), parts[0], None), parts[1])


@pytest.mark.parametrize("section", READ_BY)
def test_a_section_is_read_by_programs_that_exist(section):
    for quoted in re.findall("`([^`]+)`", READ_BY[section]):
        *words, last = quoted.split(" ", 1) if "|" in quoted else [quoted]
        for name in (" ".join([*words, each]) for each in last.split("|")):
            known = is_program(name) or is_setting(name, section) or name in CLASSES or name in READ_BY
            assert known, f"{section}: {name}"
