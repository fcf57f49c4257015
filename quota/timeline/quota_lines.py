"""Quotas in files of either format: YAML (`quota.timeline.quota_file`), or JSON lines as in the quota log."""

import codecs
import difflib
import re
from collections.abc import Iterator
from pathlib import PurePath

import msgspec

from quota.errors import BadInput, BadRecord
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord, read_quota_log_record
from quota.timeline.quota_file import already_given, read_quota_file

_YAML = (".yaml", ".yml")
_JSON_LINES = (".jsonl", ".ndjson")
_DOCUMENT = re.compile(rb"""\{\s*["']?quotas\b""")
"""The beginning of a quota file in JSON, which is YAML, too."""

_KEYS = [*(each.encode_name for each in msgspec.structs.fields(QuotaRecord)), "since"]
"""The keys of a quota as a record of the log, and as `quotas describe` prints it."""


def is_json_lines(content: bytes, name: str) -> bool:
    """Return whether a file holds JSON lines: by its suffix if that says so, or else by its content.

    JSON lines are empty or begin with a brace, and are no document with `quotas`.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix in _YAML or suffix in _JSON_LINES:
        return suffix in _JSON_LINES
    text = content.removeprefix(codecs.BOM_UTF8).lstrip()
    return not text or (text.startswith(b"{") and not _DOCUMENT.match(text))


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


def unknown_keys(content: bytes, name: str) -> Iterator[str]:
    """Yield a warning for each unknown key of a valid file of JSON lines.

    In the quota log such keys are ignored, as they may be those of a later version; in a file that an operator wrote
    they are probably misspelled. In YAML they are errors.
    """
    if not is_json_lines(content, name):
        return
    for number, line in enumerate(content.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
        keys = msgspec.json.decode(line, type=dict[str, msgspec.Raw]) if line.strip() else ()
        for key in (each for each in keys if each not in _KEYS):
            nearest = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            yield f"{name}:{number}: the unknown key {key!r} is ignored{hint}"


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
            raise BadInput(f"{name}:{number}: {already_given(record, seen[key])}")
        seen[key] = number
        yield record
