"""Checks that one idea has one word: `python -m conf.docs.wording` names each word that `vocabulary.toml` avoids.

It reads the prose of pages without code spans and blocks, the help of `make`, and in Python code docstrings, comments
and texts of several words, such as help and messages. Pages of evidence are left out, since programs write them.
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
_TEXT = re.compile(r"\w\S* +\S+ +\S")


@dataclass(frozen=True, slots=True)
class Rule:
    """A word to avoid. `avoid` matches whole words in any case, also across the end of a line."""

    avoid: re.Pattern[str]
    use: str
    example: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A word that a rule avoids, at a line of a text (from 1)."""

    line: int
    word: str
    use: str


def rules() -> list[Rule]:
    """Return the rules of `vocabulary.toml`."""
    entries = tomllib.loads(Path(__file__).with_name("vocabulary.toml").read_text(encoding="utf-8"))["rule"]
    return [
        Rule(re.compile(rf"\b(?:{each['avoid']})\b".replace(" ", r"\s+"), re.IGNORECASE), each["use"], each["example"])
        for each in entries
    ]


def findings_in_prose(text: str, wanted: Iterable[Rule], first_line: int = 1) -> Iterator[Finding]:
    """Yield what a text in Markdown says otherwise than the rules; code in it does not count."""
    prose = _CODE.sub(lambda code: re.sub(r"[^\n]", "\0", code[0]), text)
    for rule in wanted:
        for found in rule.avoid.finditer(prose):
            line = first_line + prose.count("\n", 0, found.start())
            yield Finding(line, " ".join(found[0].split()), rule.use)


def findings_in_python(source: str, wanted: list[Rule]) -> Iterator[Finding]:
    """Yield what docstrings, comments and texts of a module say otherwise than the rules."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _TEXT.search(node.value):
            yield from findings_in_prose(node.value, wanted, node.lineno)
    yield from _findings_in_comments(source, wanted)


def _findings_in_comments(source: str, wanted: list[Rule]) -> Iterator[Finding]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from findings_in_prose(token.string, wanted, token.start[0])


def findings_in_makefile(text: str, wanted: Iterable[Rule]) -> Iterator[Finding]:
    """Yield what the help of targets, the text after `##`, says otherwise than the rules."""
    yield from findings_in_prose(_NO_HELP.sub("", text), wanted)


def _findings(path: Path, wanted: list[Rule]) -> Iterator[Finding]:
    text = path.read_text(encoding="utf-8")
    if path.name == "Makefile":
        return findings_in_makefile(text, wanted)
    return findings_in_python(text, wanted) if path.suffix == ".py" else findings_in_prose(text, wanted)


def _files() -> Iterator[Path]:
    yield from sorted(CHECKOUT.glob("*.md"))
    pages = sorted((CHECKOUT / "docs").rglob("*.md"))
    yield from (path for path in pages if CHECKOUT / "docs/evidence" not in path.parents)
    yield CHECKOUT / "conf/mutation-quota.toml"
    yield CHECKOUT / "Makefile"
    for package in ("quota", "jobs", "schemas", "conf"):
        yield from sorted((CHECKOUT / package).rglob("*.py"))


def main() -> None:
    """Print each finding as file, line, word and what to write; exit 1 if there is one."""
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
