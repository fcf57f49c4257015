"""Pages, comments of settings and alerts name commands and options that there are."""

import re
import shlex

import pytest
from typer.main import get_command

from conf.docs.settings import READ_BY
from jobs.cli.program import app
from tests.support.checkout import CHECKOUT

ROOT = get_command(app)
PAGES = [*sorted(CHECKOUT.glob("*.md")), *sorted((CHECKOUT / "docs").rglob("*.md"))]
PAGES += [CHECKOUT / "conf/mutation-quota.toml"]
PAGES += [path for path in sorted((CHECKOUT / "conf/helm").rglob("*")) if path.is_file()]
HISTORY = {"CHANGELOG.md"}
LONG_FORM = {"--entity-type", "--entity-name", "--entity-default"}
"""Of kafka-configs.sh, which the commands on entities take besides their own options."""

_FENCED = re.compile(r"^ *```(?:sh|console)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def calls(text):
    """Yield the code on a page that begins with the program or one of its commands, as words."""
    for block in _FENCED.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            yield from words_of(re.split(r"\s#\s|\s[|<>]+\s", line)[0], in_block=True)
    for code in _INLINE.findall(_FENCED.sub("", text)):
        yield from words_of(code, in_block=False)


def words_of(code, *, in_block):
    try:
        words = shlex.split(code.replace("…", ""))
    except ValueError:
        return
    words = words[1:] if words[:1] == ["$"] else words
    if words and words[0].endswith("mutation-quota"):
        yield words[1:]
    elif not in_block and len(words) > 1 and words[0] in ROOT.commands and looks_like_a_call(words):
        yield words


def looks_like_a_call(words):
    """`enforce --once` and `quotas alter` do; `run it`, and errors such as `decisions were removed …`, do not."""
    return words[1].startswith("--") or (hasattr(ROOT.commands[words[0]], "commands") and not is_sentence(words))


def is_sentence(words):
    return len(words) > 3 and not any(word.startswith("--") for word in words)


def problem(words):
    """Return the error of a call, or None."""
    command, path = ROOT, ""
    taken = options_of(ROOT)
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        if word.startswith("-") and word != "-":
            name = word.partition("=")[0]
            if name not in taken | options_of(command) | LONG_FORM:
                return f"{path or 'mutation-quota'} has no {name}"
            if "=" not in word and remaining and takes_value(command, name):
                remaining.pop(0)
        elif hasattr(command, "commands"):
            if not re.fullmatch(r"[a-z][a-z-]*(\|[a-z|-]+)?", word):
                return None  # COMMAND, or a sentence
            for subcommand in word.split("|"):
                if subcommand not in command.commands:
                    return f"{path} has no command {subcommand}".strip()
            command = command.commands[word.split("|")[0]]
            path = f"{path} {word}".strip()
    return None


def options_of(command):
    return {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {"--help", "-h"}


def takes_value(command, name):
    return any(
        name in param.opts and not param.is_flag
        for param in (*command.params, *ROOT.params)
        if hasattr(param, "is_flag")
    )


def test_commands_and_options_on_pages_exist():
    on_pages = [(page.name, words) for page in PAGES if page.name not in HISTORY for words in calls(page.read_text())]
    assert len(on_pages) > 200
    assert [(page, problem(words)) for page, words in on_pages if problem(words)] == []


def test_the_programs_that_read_a_section_of_settings_exist():
    """Nothing else is named with them but a class, settings and a section."""
    calls_of_sections = [code.split() for text in READ_BY.values() for code in _INLINE.findall(text)]
    others = {"QuotaAdminClient", "enforce.with_audit", "jars"}
    assert {words[0] for words in calls_of_sections} - ROOT.commands.keys() == others
    assert [problem(words) for words in calls_of_sections if words[0] in ROOT.commands and problem(words)] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`quotas push|invent`", "quotas has no command invent"),
        ("```sh\nmutation-quota --set a.b=c simulate r.jsonl --invented  # why\n```", "simulate has no --invented"),
    ],
)
def test_an_invalid_call_is_detected(text, expected):
    (words,) = calls(text)
    assert problem(words) == expected
