"""The pages in docs/evidence are those of the results that are stored next to them, and of today's templates."""

import json

import pytest

from tests.evidence.report import render
from tests.support.checkout import CHECKOUT

TEMPLATES = {
    "bench/performance": "performance",
    "chaos": "chaos",
    "gateway/conformance": "gateway/gateway-conformance",
    "gateway/cost": "gateway/gateway-cost",
    "gateway/kills": "gateway/gateway-kills",
}


@pytest.mark.parametrize(("program", "page"), TEMPLATES.items())
def test_a_page_is_what_its_template_and_its_results_make(program, page):
    template = CHECKOUT / "tests" / "evidence" / program / "page.md.in"
    written = CHECKOUT / "docs" / "evidence" / f"{page}.md"
    results = json.loads(written.with_suffix(".json").read_text())
    assert written.read_text() == render(template.read_text(), results)
