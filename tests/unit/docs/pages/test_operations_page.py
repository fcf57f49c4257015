"""The pages on operations name settings that exist."""

import re

from tests.support.checkout import CHECKOUT

PAGES = [each.read_text() for each in (CHECKOUT / "docs/how-to/operations").glob("*.md")]


def test_settings_on_the_page_exist():
    settings = (CHECKOUT / "conf" / "mutation-quota.toml").read_text()
    named = re.findall(r"`(?:enforce|topics|storage|quota)\.(?!yaml)([a-z_]+)", " ".join(PAGES))
    assert named
    for each in named:
        assert re.search(rf"^(# |\[storage\.){each}\b", settings, re.MULTILINE), each
