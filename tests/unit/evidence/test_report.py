"""A page is not written if its template and the results do not fit together; `test_pages` has whole pages."""

import pytest

from tests.evidence.report import TemplateError, render, write

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


def test_nothing_is_written_if_a_value_is_missing(tmp_path):
    template = tmp_path / "page.md.in"
    template.write_text("{{kills.none}}")
    with pytest.raises(TemplateError):
        write(RESULTS, template, tmp_path / "page.md")
    assert [file.name for file in tmp_path.iterdir()] == ["page.md.in"]
