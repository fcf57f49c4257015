"""Reads quotas of files, for requests of files."""

import codecs
from collections.abc import Iterable
from pathlib import Path

from jobs.storage.whole_file import read_whole
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadInput, BadRecord
from quota.records.callback import Callbacks
from quota.records.fields import BEGINNING
from quota.records.quota_log import QuotaRecord
from quota.timeline.change import to_change
from quota.timeline.quota_file import read_quota_file
from quota.timeline.quota_lines import is_json_lines
from quota.whatif.simulation import read_quotas


def read_quotas_of_file(file: Path, callbacks: Callbacks) -> CallbackTimeline:
    """Read quotas: YAML for `quotas apply`, in force from the beginning, or the JSON lines of a quota log.

    Raises:
        BadInput: the file cannot be read; the message contains the line.
    """
    content = read_whole(file)
    if not is_json_lines(content, str(file)):
        return make_quotas(read_quota_file(content, str(file)), callbacks)
    try:
        return read_quotas(content.removeprefix(codecs.BOM_UTF8).split(b"\n"), callbacks)
    except BadRecord as error:
        raise BadInput(f"{file}:{error}") from None


def make_quotas(records: Iterable[QuotaRecord], callbacks: Callbacks) -> CallbackTimeline:
    """Return a timeline in which these quotas are in force from the beginning, or from their `effective_at` on."""
    quotas = CallbackTimeline(callbacks)
    for record in records:
        quotas.add(to_change(record, BEGINNING))
    return quotas
