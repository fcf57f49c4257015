"""The reference of the chart's values, from `conf/helm/values.yaml` and its comments."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from conf.docs.markdown import code, sentence, table

CHART = Path(__file__).parents[1] / "helm"

_COMMENT = re.compile(r"^ *# ?(.*)$")
_KEY = re.compile(r"^( *)(\w+):(?: (.*))?$")
_LATER_COMMENT = re.compile(r"(?:^|\s)# (.*)$")
_PAGE = re.compile(r"\bdocs/[\w/.-]+\.md(#[\w-]+)?")
_INDENT = 2


def values_sections() -> Iterator[str]:
    """Yield the lines of all values: each top-level key with the comment above it, and a table of the values in it."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    defaults = yaml.safe_load(text)
    _, *blocks = re.split(r"\n\n(?=(?:#.*\n)*\w)", text)
    for block in blocks:
        lines = block.splitlines()
        above = [match[1] for line in lines if line.startswith("#") and (match := _COMMENT.match(line))]
        (name,) = (match[2] for line in lines if (match := _KEY.match(line)) and not match[1])
        yield from ("", f"### {name}", "")
        yield from (_linked(" ".join(above)), "") if above else ()
        rows = ((code(key), code(default), meaning) for key, default, meaning in _rows(lines, defaults))
        yield from table(("value", "default", "meaning"), rows)


def _rows(lines: list[str], defaults: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield each value of a block that has no values in it: its path, its default, and its comments."""
    path: list[str] = []
    comments: list[str] = []
    for line in lines:
        if (comment := _COMMENT.match(line)) and line.startswith(" "):
            comments.append(comment[1])
        if not (key := _KEY.match(line)):
            continue
        path = [*path[: len(key[1]) // _INDENT], key[2]]
        value: Any = defaults
        for name in path:
            value = value[name]
        given = key[3] or ""
        if later := _LATER_COMMENT.search(given):
            comments.append(later[1])
        if isinstance(value, dict) and (not given or given.startswith("&")):
            continue
        yield ".".join(path), _default(value), _linked(" ".join(comments))
        comments = []


def _default(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


def _linked(text: str) -> str:
    """Return a comment with links to the pages that it names."""
    return _PAGE.sub(lambda page: f"[{Path(page[0].partition('#')[0]).stem}](../../{page[0]})", sentence(text))
