"""Checks that one idea has one word: `python -m conf.docs.wording` prints each word that `vocabulary.toml` avoids.

It reads the prose of pages without code spans and blocks, the help of `make`, the assets of the dashboard and the
report, configuration files, and in Python code docstrings, comments, texts and names. Pages of evidence are skipped,
because programs write them.
"""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

_CODE = re.compile(r"^(?P<fence> *```+).*?^(?P=fence) *$|``[^`]+``|`[^`\n]+`|\]\([^)]*\)", re.DOTALL | re.MULTILINE)
_NO_HELP = re.compile(r"^(?!.*## ).*$|^.*?## ", re.MULTILINE)
_VOCABULARY = "vocabulary.toml"
_QUOTING = {"test_help.py", "test_wording.py"}
"""Tests that quote words to avoid, such as names of options that no longer exist."""
_NAME_PART = re.compile(r"[A-Z]?[a-z]+")
_CONFIGURATION = (".conf", ".properties", ".service", ".toml", ".xml", ".yaml", ".yml")
_PAGES = (".md", ".sql")


@dataclass(frozen=True, slots=True)
class Rule:
    """A word to avoid. `avoid` matches whole words in any case, also across the end of a line."""

    avoid: re.Pattern[str]
    use: str
    example: str
    in_names: bool
    """Whether it also matches parts of names in Python code."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A word that a rule avoids, at a line of a text (from 1)."""

    line: int
    word: str
    use: str


def rules() -> list[Rule]:
    """Return the rules of `vocabulary.toml`."""
    entries = tomllib.loads(Path(__file__).with_name(_VOCABULARY).read_text(encoding="utf-8"))["rule"]
    return [
        Rule(
            re.compile(rf"\b(?:{each['avoid']})\b".replace(" ", r"\s+"), re.IGNORECASE),
            each["use"],
            each["example"],
            each.get("in_names", False),
        )
        for each in entries
    ]


def findings_in_prose(text: str, wanted: Iterable[Rule], first_line: int = 1) -> Iterator[Finding]:
    """Yield the avoided words of a text in Markdown; code in it is ignored."""
    prose = _CODE.sub(lambda code: re.sub(r"[^\n]", "\0", code[0]), text)
    for rule in wanted:
        for found in rule.avoid.finditer(prose):
            line = first_line + prose.count("\n", 0, found.start())
            yield Finding(line, " ".join(found[0].split()), rule.use)


def findings_in_python(source: str, wanted: list[Rule]) -> Iterator[Finding]:
    """Yield the avoided words of docstrings, comments, texts and names of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from findings_in_prose(node.value, wanted, node.lineno)
    in_names = [rule for rule in wanted if rule.in_names]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from findings_in_prose(token.string, wanted, token.start[0])
        elif token.type == tokenize.NAME:
            yield from findings_in_prose(" ".join(_NAME_PART.findall(token.string)), in_names, token.start[0])


def findings_in_files(text: str, wanted: Iterable[Rule]) -> Iterator[Finding]:
    """Yield the avoided words of a script, a style or a configuration file; backquotes in it do not mark code."""
    yield from findings_in_prose(text.replace("`", " "), wanted)


def findings_in_makefile(text: str, wanted: Iterable[Rule]) -> Iterator[Finding]:
    """Yield the avoided words of the help of targets, which is the text after `##`."""
    yield from findings_in_prose(_NO_HELP.sub("", text), wanted)


def _findings(path: Path, wanted: list[Rule]) -> Iterator[Finding]:
    text = path.read_text(encoding="utf-8")
    if path.name == "Makefile":
        return findings_in_makefile(text, wanted)
    if path.suffix == ".py":
        return findings_in_python(text, wanted)
    return findings_in_prose(text, wanted) if path.suffix == ".md" else findings_in_files(text, wanted)


def _files() -> Iterator[Path]:
    yield from sorted(CHECKOUT.glob("*.md"))
    pages = sorted(path for path in (CHECKOUT / "docs").rglob("*") if path.suffix in _PAGES)
    yield from (path for path in pages if CHECKOUT / "docs/evidence" not in path.parents)
    yield CHECKOUT / "Makefile"
    for assets in sorted((CHECKOUT / "jobs").rglob("assets")):
        yield from sorted(path for path in assets.iterdir() if path.suffix in {".css", ".html", ".js"})
    for path in sorted((CHECKOUT / "conf").rglob("*")):
        if path.suffix in _CONFIGURATION and path.name != _VOCABULARY:
            yield path
    for package in ("quota", "jobs", "schemas", "conf", "tests"):
        yield from (path for path in sorted((CHECKOUT / package).rglob("*.py")) if path.name not in _QUOTING)


def main() -> None:
    """Print each finding as file, line, word and replacement; exit 1 if there is one."""
    wanted = rules()
    lines = [
        f'{path.relative_to(CHECKOUT)}:{each.line}: "{each.word}": write {each.use}'
        for path in _files()
        for each in sorted(_findings(path, wanted), key=lambda found: found.line)
    ]
    print("\n".join(lines), end="\n" if lines else "")  # noqa: T201 a program prints
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
