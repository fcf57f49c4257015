"""A page is not written if its template and the results do not fit together; `test_pages` has whole pages."""

import json

import pytest

from tests.evidence.report import TemplateError, render, write
from tests.support.checkout import CHECKOUT

RESULTS = {"kills": {"count": 1270, "steps": [{"step": "offsets", "hit": 1234}]}, "classes": ["A", "B"]}


@pytest.mark.parametrize(
    "field",
    [
        "kills.none",
        "classes.9",
        "classes.first",
        "kills",
        "table classes",
        "table kills.count",
        "table kills.steps | no",
    ],
)
def test_a_field_that_the_results_do_not_have_is_named(field):
    with pytest.raises(TemplateError, match=rf"^\{{\{{{field.replace('|', '.')}\}}\}}: "):
        render(f"{{{{{field}}}}}", RESULTS)


def test_lines_are_repeated_for_each_row():
    lines = "{{each kills.steps}}\n{{step}}: {{hit}}\n{{end}}\nof {{kills.count}}"
    assert render(lines, RESULTS) == "offsets: 1,234\nof 1,270"
    with pytest.raises(TemplateError, match=r"^\{\{each kills\.none\}\}: "):
        render("{{each kills.none}}\n{{end}}\n", RESULTS)


def test_a_row_is_found_by_its_first_value():
    assert render("{{kills.steps.offsets.hit}} of {{kills.count}}", RESULTS) == "1,234 of 1,270"


def test_nothing_is_written_if_a_value_is_missing(tmp_path):
    template = tmp_path / "page.md.in"
    template.write_text("{{kills.none}}")
    with pytest.raises(TemplateError):
        write(RESULTS, template, tmp_path / "page.md")
    assert [file.name for file in tmp_path.iterdir()] == ["page.md.in"]


TEMPLATES = {
    "bench/performance": "performance",
    "chaos": "chaos",
    "conformance": "conformance",
    "gateway/conformance": "gateway/gateway-conformance",
    "gateway/cost": "gateway/gateway-cost",
    "gateway/kills": "gateway/gateway-kills",
    "peers": "gateway/peers",
}


@pytest.mark.parametrize(("program", "page"), TEMPLATES.items())
def test_a_page_is_what_its_template_and_its_results_make(program, page):
    template = CHECKOUT / "tests" / "evidence" / program / "page.md.in"
    written = CHECKOUT / "docs" / "evidence" / f"{page}.md"
    results = json.loads(written.with_suffix(".json").read_text())
    assert written.read_text() == render(template.read_text(), results)
