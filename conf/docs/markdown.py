"""Markdown for the generated references: tables, and generated sections of pages."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

SECTION = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end of generated -->)", re.DOTALL)


def with_sections(page: str, sections: Mapping[str, str]) -> str:
    """Return a page with its generated sections replaced.

    Raises:
        KeyError: the page has a section that is not generated.
    """
    return SECTION.sub(lambda match: f"{match[1]}\n{sections[match[2]].strip()}\n\n{match[3]}", page)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, without columns that are empty in all rows."""
    cells = [[cell.replace("|", r"\|").replace("\n", " ") for cell in row] for row in rows]
    used = [number for number in range(len(head)) if number == 0 or any(row[number] for row in cells)]
    lines = ["| " + " | ".join(line[number] for number in used) + " |" for line in (head, *cells)]
    yield from (lines[0], "|" + "---|" * len(used), *lines[1:])


def code(text: str) -> str:
    """Return a text as code; an empty text stays empty."""
    return f"`{text}`" if text else ""


def sentence(text: str) -> str:
    """Return a text as one line, with `<` escaped, which Markdown would interpret as HTML."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)
