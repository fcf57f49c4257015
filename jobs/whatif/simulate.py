"""`simulate`: decides the requests of a file."""

import codecs
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from jobs.storage.whole_file import read_whole
from quota.admission.policy import Policy
from quota.callbacks.loading import check_callbacks
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadInput, BadRecord
from quota.planning.quota_file import is_json_lines, read_quota_file
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision
from quota.records.fields import BEGINNING
from quota.records.quota_log import Callbacks, QuotaRecord
from quota.settings import Settings
from quota.timeline.change import to_change
from quota.whatif.rates import AlgorithmName, make_algorithm
from quota.whatif.simulation import read_quotas, simulate


def decide_file(
    settings: Settings, requests: str, quota_file: Path, name: AlgorithmName
) -> Iterator[Decision | DeadLetter]:
    """Decide each line of a file of requests, or of standard input (`-`), that is not blank, in their order."""
    algorithm = make_algorithm(name, settings.quota.window, Policy.of(settings).deduplication)
    check_callbacks(settings.quota.callbacks)
    quotas = read_quotas_of_file(quota_file, settings.quota.callbacks)
    with open_lines(requests) as lines:
        yield from simulate(lines, quotas, algorithm, settings.topics.requests, Policy.of(settings))


def read_quotas_of_file(file: Path, callbacks: Callbacks) -> CallbackTimeline:
    """Read quotas: a document for `quotas apply`, in force from the beginning, or the JSON lines of a quota log."""
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


def open_lines(path: str) -> BinaryIO:
    """Open a file of lines, or standard input (`-`)."""
    if path == "-":
        return sys.stdin.buffer
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
