"""The candidates of a backtest, as the command line names them."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from jobs.whatif.effects import Candidate
from jobs.whatif.simulate import read_quota_log
from quota.algorithms.bucket import Window
from quota.algorithms.deduplication import NO_DEDUPLICATION
from quota.algorithms.registry import AlgorithmName, make_algorithm
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadInput
from quota.records.callback import Callbacks
from quota.records.fields import SINCE_EVER
from quota.records.quota_log import QuotaRecord
from quota.settings.model import Settings
from quota.timeline.change import change_of
from quota.timeline.quota_file import read_quota_file

RECORDED = "recorded quotas"

_NUMBERS = ("window-num", "window-size-seconds")
_KEYS = ("name", "quotas", *_NUMBERS, "algorithm")


def parse_candidates(texts: Sequence[str], recorded: CallbackTimeline | None, settings: Settings) -> list[Candidate]:
    """The recorded quotas as they are enforced, if there are any, and then what each KEY=VALUE,... says otherwise.

    Raises:
        BadInput: one cannot be read or has no quotas, or two have the same name.
    """
    candidates = [_candidate(text, recorded, settings) for text in texts]
    names = [RECORDED, *(each.name for each in candidates)]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"--candidate: two are called {name!r}; give one of them another name=")
    if recorded is None:
        return candidates
    algorithm = make_algorithm(AlgorithmName.TOKEN_BUCKET, settings.quota.window, settings.policy.repeats)
    return [Candidate(RECORDED, recorded, algorithm, settings.policy, in_earnest=False), *candidates]


def since_ever(records: Iterable[QuotaRecord], callbacks: Callbacks) -> CallbackTimeline:
    """These quotas alone, at any time."""
    quotas = CallbackTimeline(callbacks)
    for record in records:
        quotas.add(change_of(msgspec.structs.replace(record, effective_at=None), SINCE_EVER))
    return quotas


def _candidate(text: str, recorded: CallbackTimeline | None, settings: Settings) -> Candidate:
    given = _given(text)
    window = settings.quota.window
    num, seconds = (_whole(text, key, given.get(key)) for key in _NUMBERS)
    window = Window(num or window.num, seconds or window.size_seconds)
    name = _algorithm(text, given.get("algorithm", AlgorithmName.TOKEN_BUCKET.value))
    # A rate remembers no requests: each is charged, also one that was sent twice.
    repeats = settings.policy.repeats if name is AlgorithmName.TOKEN_BUCKET else NO_DEDUPLICATION
    quotas = _read(Path(given["quotas"]), settings) if "quotas" in given else recorded
    if quotas is None:
        raise BadInput(f"--candidate {text}: a file of requests has no quotas of its own; add quotas=FILE")
    return Candidate(given.get("name", text), quotas, make_algorithm(name, window, repeats), settings.policy)


def _given(text: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not (equals and value) or key not in _KEYS or key in given:
            raise BadInput(f"--candidate {text}: expected KEY=VALUE,... with each of {', '.join(_KEYS)} at most once")
        given[key] = value
    return given


def _whole(text: str, key: str, value: str | None) -> int | None:
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and int(value)):
        raise BadInput(f"--candidate {text}: {key} is a whole number above 0")
    return int(value)


def _algorithm(text: str, value: str) -> AlgorithmName:
    try:
        return AlgorithmName(value)
    except ValueError:
        names = ", ".join(each.value for each in AlgorithmName)
        raise BadInput(f"--candidate {text}: algorithm is one of {names}") from None


def _read(file: Path, settings: Settings) -> CallbackTimeline:
    """Quotas of a file: YAML as `quotas apply` takes it, or else a quota log as `simulate` does."""
    callbacks = settings.quota.callbacks
    if file.suffix not in (".yaml", ".yml"):
        return read_quota_log(file, callbacks)
    try:
        text = file.read_bytes()
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None
    return since_ever(read_quota_file(text, str(file)), callbacks)
