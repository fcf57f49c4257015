"""Hooks of MkDocs: links to files of the repository outside docs/ become links to pages of the site.

Pages contain paths in the repository, which are links on GitHub. The Markdown files at its top, and the chart's, become
pages of `project/`; any other linked file, and each file of a linked folder, becomes a page of `source/` with its text.
A link to a file that does not exist is not changed, so that the strict build reports it. The strict build also fails if
a page loads something from another host, as Mermaid diagrams do, or if a picture is missing.
"""

import itertools
import logging
import posixpath
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

CHECKOUT = Path(__file__).resolve().parents[2]

_DOCS, _PROJECT, _SOURCE = "docs/", "project/", "source/"
_LINK = re.compile(
    r"""(?P<start>\]\(|\b(?:src|srcset|href)=")(?P<target>(?![a-z]+:)[^)"#\s]+)(?P<end>(?:\#[^)"\s]*)?[)"])"""
)
_PICTURE = re.compile(r"""<(?:img|source)\b[^>]*?\b(?:src|srcset)="?(?!(?:[a-z]+:)?//|data:)([^">\s#]+)""")
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
_FOREIGN = re.compile(
    r"""<(?:script|img|iframe|source|link (?=[^>]*rel="?(?:stylesheet|preload|preconnect|icon)))[^>]*"""
    r"""(?:src|href)="?(?:https?:)?//[^>]*>|class="?mermaid"""
)
_BOOSTS, _OTHERS = {"tutorial": 2, "how-to": 4, "reference": 0.5}, 0.002
"""The weights in the search of the pages of a folder, and of all others: how something is done comes before why, or
how it was tested or decided, also if those have the word in their title, which counts as a thousand words of a text."""
_BOTH_PICTURES = re.compile(
    r"""<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">\s*"""
    r"""(?P<light><img\b[^>]*?)src="(?P<name>[^"]+)">\s*</picture>"""
)
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_WIDE, _LONG = 3, 60
"""The columns of a table, and the characters in a cell, from which phones show its rows as lists."""
_TAG = re.compile(r"<[^>]*>")
_CELL = re.compile(r"<td\b.*?</td>", re.DOTALL)
_NAME = re.compile(r"(?<=<code>)[^<]+")
_PHRASE = re.compile(r"<code>(?:[^<\n]|<wbr>)*</code>")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_LANGUAGES = {"": "docker", "jsonl": "json", "py": "python", "sh": "bash"}


def on_startup(command: str, *, dirty: bool) -> None:
    """Print only warnings during a build."""
    del dirty
    if command == "build":
        logging.getLogger("mkdocs").setLevel(logging.WARNING)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the repository that are linked, those at its top, and the chart's."""
    for page in (*CHECKOUT.glob("*.md"), CHECKOUT / "conf/helm/README.md"):
        uri = f"{_PROJECT}{page.relative_to(CHECKOUT)}"
        files.append(File.generated(config, uri, content=page.read_text("utf-8")))
    css = CHECKOUT / "conf/docs/site.css"
    files.append(File.generated(config, css.name, content=css.read_text("utf-8")))
    linked = {path for file in files.documentation_pages() for path in _linked(file)}
    shown = {path for path in linked if _uri(path).startswith(_SOURCE) and (CHECKOUT / path).exists()}
    shown |= {f"{path}/{name}" for path in shown if (CHECKOUT / path).is_dir() for name in _names(path)}
    for path in sorted(shown):
        files.append(File.generated(config, _uri(path), content=_as_page(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace links between files of the repository with links between pages of the site."""
    del config, files
    kind = page.file.src_uri.partition("/")[0]
    page.meta.setdefault("search", {}).setdefault("boost", _BOOSTS.get(kind, _OTHERS))
    if page.file.src_uri.startswith(_SOURCE):
        return markdown
    folder = posixpath.dirname(page.file.src_uri)

    def relink(link: re.Match[str]) -> str:
        path = _target(page.file, link["target"])
        target = posixpath.relpath(_uri(path), folder) if (CHECKOUT / path).exists() else link["target"]
        return f"{link['start']}{target}{link['end']}"

    parts = _CODE.split(markdown)
    return "".join(part if number % 2 else _LINK.sub(relink, part) for number, part in enumerate(parts))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Warn about a page that loads something from another host, and fit tables and pictures to screens.

    Long names in tables break at dots and capitals, options nowhere. The cells of tables with text have the names of
    their columns, with which phones show a row as a list. Pictures follow the page's theme and not only the system's.
    """
    del config
    for tag in foreign_loads(output):
        logging.getLogger("mkdocs.hooks").warning("%s loads from another host: %s", page.file.src_uri, tag)
    output = _BOTH_PICTURES.sub(r'\g<light> src="\g<name>#only-light">\g<light> src="\g<dark>#only-dark">', output)
    output = _CELL.sub(_breakable, _TABLE.sub(_labelled, output))
    return _PHRASE.sub(lambda code: _OPTION.sub(r'<span class="option">\g<0></span>', code[0]), output)


def on_post_build(config: MkDocsConfig) -> None:
    """Warn about a picture that is not in the site; MkDocs checks only those of Markdown."""
    site = Path(config.site_dir)
    for page in site.rglob("*.html"):
        for picture in _PICTURE.finditer(page.read_text("utf-8")):
            if not (page.parent / picture[1]).is_file():
                logging.getLogger("mkdocs.hooks").warning("%s: no picture %s", page.relative_to(site), picture[1])


def _labelled(table: re.Match[str]) -> str:
    """Return a table, with the names of its columns in its cells if one has a text too long for a narrow column."""
    columns = [escape(_TAG.sub("", cell)) for cell in re.findall(r"<th\b[^>]*>(.*?)</th>", table[0], re.DOTALL)]
    texts = [_TAG.sub("", cell) for cell in _CELL.findall(table[0])]
    if len(columns) < _WIDE or max(map(len, texts), default=0) < _LONG:
        return table[0]
    labels = itertools.cycle(columns)
    labelled = re.sub(r"<td\b", lambda cell: f'{cell[0]} data-label="{next(labels)}"', table[0])
    return labelled.replace("<table>", "<table data-rows-as-lists>", 1)


def _breakable(cell: re.Match[str]) -> str:
    return _NAME.sub(lambda name: re.sub(r"[._=/](?!$)|[a-z](?=[A-Z])", r"\g<0><wbr>", name[0]), cell[0])


def foreign_loads(html: str) -> list[str]:
    """Return the tags with which a page loads something from other hosts; links are not included."""
    return [tag[0] for tag in _FOREIGN.finditer(html)]


def _linked(file: File) -> Iterator[str]:
    for part in _CODE.split(file.content_string)[::2]:
        for link in _LINK.finditer(part):
            yield _target(file, link["target"])


def _target(file: File, target: str) -> str:
    """Return the path in the repository of a link's target."""
    uri = file.src_uri
    here = uri.removeprefix(_PROJECT) if uri.startswith(_PROJECT) else _DOCS + uri
    path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
    return f"{path}/README.md" if (CHECKOUT / path / "README.md").is_file() and path != "." else path


def _uri(path: str) -> str:
    """Return the path in the site of a file of the repository."""
    if path.startswith(_DOCS):
        return path.removeprefix(_DOCS)
    return f"{_PROJECT}{path}" if path.endswith(".md") else f"{_SOURCE}{path}.md"


def _names(folder: str) -> list[str]:
    return sorted(file.name for file in (CHECKOUT / folder).iterdir() if file.is_file())


def _as_page(path: str) -> str:
    head = f"---\ntitle: {path}\nsearch:\n  exclude: true\n---\n\n# `{path}`\n\n"
    if (CHECKOUT / path).is_dir():
        name = posixpath.basename(path)
        return head + "".join(f"- [{file}]({name}/{file}.md)\n" for file in _names(path))
    suffix = posixpath.splitext(path)[1].removeprefix(".")
    text = (CHECKOUT / path).read_text("utf-8").rstrip()
    return f"{head}````{_LANGUAGES.get(suffix, suffix)}\n{text}\n````\n"
