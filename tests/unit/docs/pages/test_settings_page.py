"""The reference of settings, from the models."""

from conf.docs.settings_page import settings_sections


def test_a_table_of_numbers_is_shown_with_their_range():
    (row,) = [line for line in settings_sections() if line.startswith("| `audit.keep_days` |")]
    assert [cell.strip() for cell in row.split("|")][2:6] == ["table of integers", "", "empty", "1 to 36,500"]
