"""Pages of the site fit phones and the reader's theme."""

from types import SimpleNamespace

import pytest

from conf.docs.site_links import on_post_page

PAGE = SimpleNamespace(file=SimpleNamespace(src_uri="page.md"))
HEAD = "<thead><tr><th>setting</th><th>default</th><th>description</th></tr></thead>"


def post(html):
    return on_post_page(html, PAGE, None)


@pytest.mark.parametrize(("text", "as_lists"), [("a text " * 10, True), ("0.97", False)])
def test_a_table_with_text_names_the_column_of_each_cell(text, as_lists):
    cells = f'<td>a</td><td style="text-align: right;">1</td><td>{text}</td>'
    shown = post(f"<table>{HEAD}<tbody><tr>{cells}</tr></tbody></table>")
    assert ("<table data-rows-as-lists>" in shown) == as_lists
    assert ('<td data-label="default" style=' in shown) == as_lists


def test_both_pictures_follow_the_theme():
    source = '<source media="(prefers-color-scheme: dark)" srcset="dark.png">'
    shown = post(f'<picture>\n{source}\n<img alt="A page"\nsrc="light.png">\n</picture>')
    assert [part.split('"')[1] for part in shown.split("src=")[1:]] == ["light.png#only-light", "dark.png#only-dark"]
    assert shown.count('alt="A page"') == 2


def test_an_option_is_not_broken_after_its_hyphens():
    assert post("<code>run --once</code>") == '<code>run <span class="option">--once</span></code>'
