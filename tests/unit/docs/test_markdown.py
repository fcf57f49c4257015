"""Pages read the same on GitHub and on the site, whose Markdown wants what belongs to a list four spaces in."""

import re

import pytest

from tests.support.checkout import CHECKOUT

PAGES = [*sorted(CHECKOUT.glob("*.md")), *sorted((CHECKOUT / "docs").rglob("*.md"))]
_ITEM = re.compile(r"([-*]|\d+\.) ")


def misread(text):
    """The lines that the two read differently, with their numbers."""
    before, code = "", False
    for number, line in enumerate(text.splitlines(), 1):
        indent, content = re.fullmatch(r"( *)(.*)", line).groups()
        fence = content.startswith("```")
        begins_block = fence or content.startswith("|") or _ITEM.match(content) or not before.strip()
        of_paragraph = before.strip() and not before.startswith((" ", "|", "#", "<!--")) and not _ITEM.match(before)
        if (
            not code
            and content
            and ((len(indent) % 4 and begins_block) or (of_paragraph and not indent and _ITEM.match(content)))
        ):
            yield number, line
        code ^= fence
        before = line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_both_renderers_read_a_page_equally(page):
    assert list(misread(page.read_text())) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_row_of_a_table_has_the_cells_of_its_head(page):
    tables = re.findall(r"(?:^\|.*\n)+", page.read_text(), re.MULTILINE)
    cells = [[len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()] for table in tables]
    assert [table for table, counts in zip(tables, cells, strict=True) if len(set(counts)) > 1] == []


@pytest.mark.parametrize(
    "text",
    [
        "a paragraph\n- no item",
        "1. an item\n\n   a paragraph of it",
        "- an item\n  - another list",
        "- an item\n\n  ```\n  ```",
    ],
)
def test_a_difference_between_the_renderers_is_detected(text):
    assert len(list(misread(text))) >= 1
