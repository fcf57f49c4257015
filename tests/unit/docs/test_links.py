"""Pages lead to pages that there are."""

import re

import pytest

from tests.support.checkout import CHECKOUT

PAGES = [*sorted(CHECKOUT.glob("*.md")), *sorted((CHECKOUT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_have_existing_targets(page):
    targets = re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_whose_text_is_a_path_has_that_target(page):
    links = re.findall(r"\[`((?:conf|docs|jobs|quota|schemas|tests)/[^`]*)`\]\((?!https?://)([^)#]+)", page.read_text())
    files = {path: (page.parent / target).resolve().relative_to(CHECKOUT) for path, target in links}
    assert {path: str(file) for path, file in files.items() if str(file) not in {path, f"{path}/README.md"}} == {}
