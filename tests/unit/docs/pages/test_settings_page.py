"""The reference of settings, from the models."""

import re

import pytest
from typer.main import get_command

from conf.docs.settings_page import READ_BY, settings_sections
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


def test_a_program_that_does_not_exist_is_found():
    assert not is_program("quotas pul")
    assert not is_program("buckets reset --dry")


def test_a_table_of_numbers_is_shown_with_their_range():
    (row,) = [line for line in settings_sections() if line.startswith("| `audit.keep_days` |")]
    assert [cell.strip() for cell in row.split("|")][2:6] == ["table of integers", "", "empty", "1 to 36,500"]
