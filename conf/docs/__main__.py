"""Writes the generated sections of pages, and schemas: `python -m conf.docs`; `--check` only prints which are stale."""

import sys
from collections.abc import Mapping
from pathlib import Path

from conf.docs.chart import values_sections
from conf.docs.commands import command_pages, overview
from conf.docs.figures import DOCS, FIGURE, with_figures
from conf.docs.markdown import SECTION, with_sections
from conf.docs.messages import JARS, messages_text
from conf.docs.records import record_sections, schema_files
from conf.docs.settings import CHART_SCHEMA, chart_schema, settings_sections
from conf.docs.tables import column_sections, metric_table, topic_commands, topic_table
from quota.wire.schemas import MESSAGES

VALUES = DOCS.parent / "conf" / "helm" / "README.md"
SCHEMAS = DOCS.parent / "schemas" / "json"


def generated() -> Mapping[Path, Mapping[str, str]]:
    """Return the generated sections of each page."""
    sections = {
        "reference/commands.md": {"commands": "\n".join(overview())},
        "reference/monitoring/metrics.md": {"metrics": "\n".join(metric_table())},
        "reference/records.md": record_sections(),
        "reference/settings.md": {"settings": "\n".join(settings_sections())},
        "reference/tables.md": column_sections(),
        "reference/topics.md": {"topics": "\n".join(topic_table()), "commands": "\n".join(topic_commands())},
    }
    pages = {DOCS / name: of_page for name, of_page in sections.items()}
    return pages | {VALUES: {"values": "\n".join(values_sections())}}


def pages() -> dict[Path, str]:
    """Return the current text of the pages and of the schemas, by path; without the jars, not of Kafka's."""
    texts = {
        page: page.read_text(encoding="utf-8") for page in (*DOCS.parent.glob("*.md"), *DOCS.rglob("*.md"), VALUES)
    }
    texts |= {page: with_sections(texts[page], sections) for page, sections in generated().items()}
    texts = {page: with_figures(text) for page, text in texts.items() if FIGURE.search(text) or SECTION.search(text)}
    texts |= {DOCS / name: f"{text.strip()}\n" for name, text in command_pages().items()}
    texts |= {SCHEMAS / name: text for name, text in schema_files().items()} | {CHART_SCHEMA: chart_schema()}
    return texts | ({MESSAGES: messages_text()} if JARS.exists() else {})


def main() -> None:
    """Write the files, or exit 1 if one is stale."""
    stale = {
        page: text for page, text in pages().items() if not page.exists() or page.read_text(encoding="utf-8") != text
    }
    if "--check" in sys.argv[1:]:
        if stale:
            sys.exit(f"stale: {', '.join(page.name for page in stale)}; make references writes them")
        return
    for page, text in stale.items():
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
