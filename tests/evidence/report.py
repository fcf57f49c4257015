"""Pages of results: a template with values and tables from the JSON that a program printed.

A template is Markdown with fields in double braces. A path joins by dots keys of objects, numbers of items of a list,
and first values of its rows.

    {{kills.count}}                          a value, in the form of `shown`
    {{kills.seconds:.1f}}                    a value with a format of Python's
    {{table kills.steps}}                    a table with a column for each key of the first row
    {{table kills.steps | step | count:,d = kills}}
                                             these columns only, each with its format and heading
    {{list suites | name}}                   the values of a column, with commas
    {{each suites}} ... {{end}}              the lines between, for each row of a list, with paths that begin at the row

The rows of a table are a list of objects, or an object of objects whose keys are the first column (its key is `name`),
or an object of single values (the keys are `name` and `value`). `python -m tests.evidence.report TEMPLATE JSON`
prints a page.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

NOTHING = "-"
_FIELD = re.compile(r"\{\{(.+?)\}\}")
_EACH = re.compile(r"\{\{each (\S+)\}\}\n(.*?)\{\{end\}\}\n", re.DOTALL)
_TABLE, _LIST = "table ", "list "
_THREE_DIGITS = 100


class TemplateError(Exception):
    """A template and the results that do not fit together; the text names the field."""


def render(template: str, results: Mapping[str, Any]) -> str:
    """Return a template with its fields replaced."""
    repeated = _EACH.sub(lambda block: "".join(render(block[2], row) for row in _listed(block[1], results)), template)
    return _FIELD.sub(lambda field: _replaced(field[1].strip(), results), repeated)


def write(results: Mapping[str, Any], template: Path, page: Path) -> None:
    """Write the results as JSON, and the page next to them; both have the page's name."""
    text = render(template.read_text(encoding="utf-8"), results)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.with_suffix(".json").write_text(as_json(results), encoding="utf-8")
    page.write_text(text, encoding="utf-8")


def as_json(results: Mapping[str, Any]) -> str:
    """Return the results as they are printed and stored."""
    return json.dumps(results, indent=1, ensure_ascii=False) + "\n"


def shown(value: Any, form: str = "") -> str:
    """Return a value for a page: numbers with separators or three digits, lists with commas, `NOTHING` for null."""
    match value:
        case None:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(shown(item, form) for item in value)
        case int() | float() if not form:
            is_small = isinstance(value, float) and abs(value) < _THREE_DIGITS
            return f"{value:.3g}" if is_small else f"{round(value):,}"
        case str() | int() | float():
            return format(value, form)
    raise TemplateError(f"a {type(value).__name__} is not a single value")


def _listed(path: str, results: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    try:
        return _rows(_at(path, results))
    except (LookupError, TypeError, ValueError, TemplateError) as error:
        raise TemplateError(f"{{{{each {path}}}}}: {error}") from error


def _replaced(field: str, results: Mapping[str, Any]) -> str:
    try:
        if field.startswith(_TABLE):
            path, *columns = (part.strip() for part in field.removeprefix(_TABLE).split("|"))
            return _table(_rows(_at(path, results)), [_Column.parse(column) for column in columns])
        if field.startswith(_LIST):
            path, key = (part.strip() for part in field.removeprefix(_LIST).split("|"))
            return shown([row[key] for row in _rows(_at(path, results))])
        path, _, form = field.partition(":")
        return shown(_at(path, results), form)
    except (LookupError, TypeError, ValueError, TemplateError) as error:
        raise TemplateError(f"{{{{{field}}}}}: {error}") from error


def _at(path: str, results: Any) -> Any:
    """Return the value at a path."""
    value = results
    for name in path.split("."):
        value = _item(value, name) if isinstance(value, Sequence) else value[name]
    return value


def _item(items: Sequence[Any], name: str) -> Any:
    """Return an item of a list: by its number, or the first row that begins with a name."""
    if name.isdigit():
        return items[int(name)]
    for row in items:
        if isinstance(row, Mapping) and next(iter(row.values())) == name:
            return row
    raise LookupError(f"no row {name}")


def _rows(value: Any) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a table."""
    if isinstance(value, Mapping):
        return [
            {"name": name, **(content if isinstance(content, Mapping) else {"value": content})}
            for name, content in value.items()
        ]
    if not isinstance(value, Sequence) or not all(isinstance(row, Mapping) for row in value):
        raise TemplateError("a table is a list of objects, or an object")
    return value


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a table."""

    key: str
    heading: str
    form: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the column of `KEY[:FORMAT] [= HEADING]`."""
        described, equals, heading = text.partition("=")
        key, _, form = described.strip().partition(":")
        return cls(key, heading.strip() if equals else key, form)


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[_Column]) -> str:
    """Return a table in Markdown; columns without a text are aligned to the right."""
    if not rows:
        raise TemplateError("a table without rows")
    columns = columns or [_Column(key, key) for key in rows[0]]
    texts = (any(isinstance(row[column.key], str) for row in rows) for column in columns)
    cells = ([_cell(shown(row[column.key], column.form)) for column in columns] for row in rows)
    head, *lines = (f"| {' | '.join(line)} |" for line in ([column.heading for column in columns], *cells))
    return "\n".join([head, "|" + "".join("---|" if has_text else "---:|" for has_text in texts), *lines])


def _cell(text: str) -> str:
    """Return a text that Markdown shows as it is, but for its emphasis, code and links."""
    return text.replace("|", "\\|").replace("{", "\\{").replace("<", "&lt;")


def main() -> None:
    """Print the page of a template and a file of results."""
    template, results = (Path(name).read_text(encoding="utf-8") for name in sys.argv[1:])
    try:
        print(render(template, json.loads(results)), end="")
    except TemplateError as error:
        sys.exit(f"report: {error}")


if __name__ == "__main__":
    main()
