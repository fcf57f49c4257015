"""Quotas in files of either format: YAML (`quota.timeline.quota_file`), or JSON lines as in the quota log."""

import codecs
from collections.abc import Iterator
from pathlib import PurePath

from quota.errors import BadInput, BadRecord
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord, read_quota_log_record
from quota.text import format_time
from quota.timeline.quota_file import read_quota_file

_YAML = (".yaml", ".yml", ".json")  # a JSON document is YAML, too
_JSON_LINES = (".jsonl", ".ndjson")


def is_json_lines(content: bytes, name: str) -> bool:
    """Return whether a file holds JSON lines: by its suffix, or else if it begins with a brace or is empty."""
    suffix = PurePath(name).suffix.lower()
    if suffix in _YAML or suffix in _JSON_LINES:
        return suffix in _JSON_LINES
    text = content.removeprefix(codecs.BOM_UTF8).lstrip()
    return not text or text.startswith(b"{")


def read_quotas_of_entities(content: bytes, name: str) -> list[QuotaRecord]:
    """Parse a file with one quota for each entity, YAML or JSON lines.

    JSON lines may also hold scheduled changes (`effective_at`), as `quotas describe` prints them: one for each entity
    and time, including removals.

    Args:
        content: the file's bytes.
        name: the file's name, for its format and in errors.

    Raises:
        BadInput: the file is invalid; the message names the file and the line.
    """
    return list(_read_lines(content, name)) if is_json_lines(content, name) else read_quota_file(content, name)


def _read_lines(content: bytes, name: str) -> Iterator[QuotaRecord]:
    seen: dict[tuple[QuotaEntity, int | None], int] = {}
    for number, line in enumerate(content.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            record = read_quota_log_record(line)
        except BadRecord as error:
            raise BadInput(f"{name}:{number}: {error}") from None
        if not isinstance(record, QuotaRecord) or (record.quota is None and record.effective_at is None):
            raise BadInput(
                f"{name}:{number}: expected an entity with controller_mutation_rate; "
                "only a change with effective_at may remove a quota (null)"
            )
        key = record.entity, record.effective_at
        if key in seen:
            then = "" if record.effective_at is None else f" for {format_time(record.effective_at)}"
            raise BadInput(f"{name}:{number}: {record.entity} has a quota{then} already, in line {seen[key]}")
        seen[key] = number
        yield record
