"""The generated references are current, and agree with their sources."""

import re

import pytest
from typer.main import get_command

from conf.docs.__main__ import DOCS, pages
from conf.docs.figures import FIGURE, with_figures
from conf.docs.markdown import table
from jobs.cli.program import SECTIONS, app
from quota.kafka.topics.preparation import faults
from quota.kafka.topics.specs import topic_specs
from quota.settings import Settings
from tests.evidence.report import TemplateError
from tests.support.described_topics import described_topic

SETTINGS = (DOCS / "reference" / "settings.md").read_text()
COMMANDS = "\n".join(page.read_text() for page in sorted((DOCS / "reference" / "commands").glob("*.md")))
TOPICS = (DOCS / "reference" / "topics.md").read_text()


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_generated_pages_are_current(page):
    """`make references` updates it."""
    assert pages()[page] == page.read_text()


def test_a_figure_is_what_the_evidence_has_and_a_wrong_path_is_an_error():
    assert (
        with_figures("9,9<!-- performance: sections.start.0.unit -->") == "s<!-- performance: sections.start.0.unit -->"
    )
    assert (
        with_figures("on `x`<!-- chaos: versions.python:.4 --> and 5 s")
        == "on `3.11`<!-- chaos: versions.python:.4 --> and 5 s"
    )
    with pytest.raises(TemplateError, match="no row p50"):
        with_figures("150<!-- performance: sections.latency.p50.median -->")


MEASURED = re.compile(r"(?<![\w.-])\d[\d,.]* ?(?:ms|s|µs|[KMG]i?B|%|per second|times)\b")


def test_a_figure_next_to_a_link_to_its_evidence_is_generated():
    """Evidence has it from its program; decisions, and pages of programs that are gone, are records of their day."""
    pages = [page for page in DOCS.rglob("*.md") if not {"evidence", "decisions"} & set(page.relative_to(DOCS).parts)]
    lines = [line for page in pages for line in re.split(r"\n\n|(?<=\|)\n", page.read_text())]
    quoting = [line for line in lines if re.search(r"\]\([./]*evidence/(?!index|records|experiment).*\.md", line)]
    assert sum(bool(FIGURE.search(line)) for line in quoting) >= 3
    assert [(line, found) for line in quoting if (found := MEASURED.findall(FIGURE.sub("", line)))] == []


def test_each_setting_has_a_row():
    above, _, generated = SETTINGS.partition("\n## All settings\n")
    keys = [f"{name}.{key}" for name, section in Settings() for key in type(section).model_fields]
    keys = [key for key in keys if not key.startswith("target.")]  # these are described by those of `kafka`
    assert sorted(re.findall(r"^\| `(\w+\.\w+)` \|", generated, re.MULTILINE)) == sorted(keys)
    after_a_restart = re.findall(r"`([a-z]+\.[a-z_]+)`", above.partition("\n## When a change takes effect\n")[2])
    assert len(after_a_restart) > 1
    assert set(after_a_restart) <= set(keys)


def test_the_table_of_readers_has_each_section_once():
    table, _ = SETTINGS.partition("## Who needs which section")[2].split("\n## ", 1)
    rows = [line.rsplit("|", 2)[1] for line in table.splitlines() if line.startswith("|")]
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(Settings.model_fields)


def test_each_command_has_a_section():
    headings = re.findall(r"^#{2,3} (.+)$", COMMANDS, re.MULTILINE)
    names = [
        path
        for name, command in get_command(app).commands.items()
        for path in (name, *(f"{name} {inner}" for inner in getattr(command, "commands", {})))
    ]
    assert sorted(headings) == sorted(names)


def test_an_option_that_many_commands_share_is_described_once():
    described = "\n".join([text for page, text in pages().items() if "commands" in str(page.relative_to(DOCS.parent))])
    assert described.count("`--bootstrap-server HOST:PORT`: ") == 1
    assert described.count("`--bootstrap-server`, `--command-config`") > 10
    assert "`--limit N` (1 to 100000, default `20`): Print at most the N newest." in described


def test_the_help_has_the_panels_in_the_order_of_the_page(capsys):
    with pytest.raises(SystemExit):
        get_command(app)(["--help"])
    panels = re.findall(r"^╭─ (.+?) ─+╮$", capsys.readouterr().out, re.MULTILINE)
    headings = re.findall(r"^## (.+)$", (DOCS / "reference" / "commands.md").read_text(), re.MULTILINE)
    assert panels[2:] == headings[: len(panels) - 2] == list(SECTIONS)


def parse_commands(page: str) -> dict[str, tuple[int, dict[str, str]]]:
    """Return the partitions and configs of the topics that a page's commands create."""
    commands = page.replace("\\\n", "")
    topics = re.findall(r"^topics --create --topic (\S+) --partitions (\d+)(.*)$", commands, re.MULTILINE)
    return {
        name: (int(partitions), dict(re.findall(r"--config ([\w.]+)=(\S+)", configs)))
        for name, partitions, configs in topics
    }


def test_the_commands_that_create_topics_create_them_as_the_jobs_need_them():
    created = parse_commands(TOPICS)
    assert list(created) == [spec.name for spec in topic_specs(Settings())]
    assert created["mutation-quotas"] == (
        1,
        {
            "message.timestamp.type": "LogAppendTime",
            "cleanup.policy": "compact",
            "min.compaction.lag.ms": "604800000",
            "max.message.bytes": "8388608",
            "min.insync.replicas": "2",
        },
    )
    defaults = {
        "message.timestamp.type": "CreateTime",
        "max.message.bytes": "1048588",
        "cleanup.policy": "delete",
    }
    topics = {
        name: described_topic(
            name, *[(1, (1,), (1,))] * partitions, configs={**defaults, "min.compaction.lag.ms": "0", **configs}
        )
        for name, (partitions, configs) in created.items()
    }
    assert list(faults(topics, Settings())) == []


def test_table_separators_and_html_are_escaped():
    assert list(table(("a", "b"), [["x|y", "1\n2"]])) == ["| a | b |", "|---|---|", r"| x\|y | 1 2 |"]
