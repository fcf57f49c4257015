"""Counts and their nouns."""

from quota.text import plural


def test_a_count_has_its_noun():
    assert [plural(each, "file") for each in (0, 1, 2000)] == ["0 files", "1 file", "2,000 files"]
