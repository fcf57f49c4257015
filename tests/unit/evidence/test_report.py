"""A page is a template with the values and tables of a program's results."""

import pytest

from tests.evidence.report import TemplateError, render, write

RESULTS = {
    "kills": {
        "count": 1270,
        "seconds": 13.07,
        "part": None,
        "steps": [{"step": "offsets", "hit": 1234, "missed": None}],
    },
    "routes": {"direct": {"p50": 0.25, "whole": True}, "gateway": {"p50": 0.5, "whole": False}},
    "checks": {"lost": 0, "doubled": 0},
    "classes": ["A", "B"],
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{kills.count}} kills", "1,270 kills"),
        ("{{ kills.seconds }} s, {{kills.seconds:.1f}} s", "13.1 s, 13.1 s"),
        ("{{kills.part}}", "-"),
        ("{{classes}}; {{classes.1}}", "A, B; B"),
        ("{no field}", "{no field}"),
    ],
)
def test_a_field_becomes_the_value_at_its_path(template, text):
    assert render(template, RESULTS) == text


def test_a_list_of_objects_becomes_a_table_of_all_their_keys():
    assert render("{{table kills.steps}}", RESULTS) == (
        "| step | hit | missed |\n| --- | ---: | ---: |\n| offsets | 1,234 | - |"
    )


def test_a_table_may_name_its_columns_with_formats_and_headings():
    assert render("{{table routes | name = route | p50:.2f = p50, ms}}", RESULTS) == (
        "| route | p50, ms |\n| --- | ---: |\n| direct | 0.25 |\n| gateway | 0.50 |"
    )


def test_objects_by_name_and_values_by_name_become_tables():
    assert render("{{table routes}}", RESULTS).splitlines()[::2] == ["|  | p50 | whole |", "| direct | 0.25 | yes |"]
    assert render("{{table checks | name = | value = count}}", RESULTS).splitlines() == [
        "|  | count |",
        "| --- | ---: |",
        "| lost | 0 |",
        "| doubled | 0 |",
    ]


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
