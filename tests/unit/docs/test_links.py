"""Pages lead to pages that there are."""

import re

from tests.support.checkout import CHECKOUT

PAGES = [*sorted(CHECKOUT.glob("*.md")), *sorted((CHECKOUT / "docs").rglob("*.md"))]


def links(pattern):
    """Return what a pattern finds on all pages, each with its page."""
    return [(page, found) for page in PAGES for found in re.findall(pattern, page.read_text())]


def test_links_have_existing_targets():
    targets = links(r"\]\((?!https?://)([^)#]+)")
    assert len(targets) > 500
    assert [(page.name, target) for page, target in targets if not (page.parent / target).exists()] == []


def test_a_link_whose_text_is_a_path_has_that_target():
    paths = links(r"\[`((?:conf|docs|jobs|quota|schemas|tests)/[^`]*)`\]\((?!https?://)([^)#]+)")
    files = [(path, str((page.parent / target).resolve().relative_to(CHECKOUT))) for page, (path, target) in paths]
    assert len(files) > 10
    assert [(path, file) for path, file in files if file not in {path, f"{path}/README.md"}] == []
