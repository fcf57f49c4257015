"""The quotas that are tried on requests: those of a file, and those of `--candidate`."""

import codecs
from collections.abc import Iterable, Sequence
from pathlib import Path

from jobs.storage.whole_file import read_whole
from quota.admission.policy import Policy
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadInput, BadRecord
from quota.planning.quota_file import is_json_lines, read_quota_file
from quota.records.quota_log import Callbacks, QuotaRecord, Window
from quota.records.record import BEGINNING
from quota.settings import Settings
from quota.timeline.change import to_change
from quota.whatif.evaluation import Candidate
from quota.whatif.rejected_algorithms import AlgorithmName, make_algorithm
from quota.whatif.simulation import read_quotas

_RECORDED_QUOTAS = "recorded quotas"

_NUMBERS = ("window-num", "window-size-seconds")
_KEYS = ("name", "quotas", *_NUMBERS, "algorithm")


def parse_candidates(texts: Sequence[str], recorded: CallbackTimeline | None, settings: Settings) -> list[Candidate]:
    """Parse candidates; the recorded quotas, which are the first one, are None for a file of requests."""
    candidates = [_parse_candidate(text, recorded, settings) for text in texts]
    names = [_RECORDED_QUOTAS, *(candidate.name for candidate in candidates)]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"--candidate: two candidates are called {name!r}; give one of them another name=")
    if recorded is None:
        return candidates
    algorithm = make_algorithm(AlgorithmName.TOKEN_BUCKET, settings.quota.window, Policy.of(settings).deduplication)
    return [Candidate(_RECORDED_QUOTAS, recorded, algorithm, Policy.of(settings), enforces_shadow=False), *candidates]


def _parse_candidate(text: str, recorded: CallbackTimeline | None, settings: Settings) -> Candidate:
    values = _parse_pairs(text)
    window = settings.quota.window
    num, seconds = (_parse_number(text, key, values.get(key)) for key in _NUMBERS)
    window = Window(num or window.num, seconds or window.size_seconds)
    name = _parse_algorithm(text, values.get("algorithm", AlgorithmName.TOKEN_BUCKET.value))
    quotas = read_quotas_of_file(Path(values["quotas"]), settings.quota.callbacks) if "quotas" in values else recorded
    if quotas is None:
        raise BadInput(f"--candidate {text}: a file of requests needs quotas; add quotas=FILE")
    algorithm = make_algorithm(name, window, Policy.of(settings).deduplication)
    return Candidate(values.get("name", text), quotas, algorithm, Policy.of(settings))


def _parse_pairs(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not (equals and value) or key not in _KEYS or key in values:
            raise BadInput(f"--candidate {text}: expected KEY=VALUE,... with each of {', '.join(_KEYS)} at most once")
        values[key] = value
    return values


def _parse_number(text: str, key: str, value: str | None) -> int | None:
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and int(value)):
        raise BadInput(f"--candidate {text}: {key}: expected a whole number above 0")
    return int(value)


def _parse_algorithm(text: str, value: str) -> AlgorithmName:
    try:
        return AlgorithmName(value)
    except ValueError:
        names = ", ".join(name.value for name in AlgorithmName)
        raise BadInput(f"--candidate {text}: algorithm: expected one of {names}") from None


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
