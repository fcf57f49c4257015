"""The candidates of a backtest, as `--candidate` names them."""

from collections.abc import Sequence
from pathlib import Path

from jobs.whatif.simulate import read_quotas_of_file
from quota.admission.policy import Policy
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadInput
from quota.records.quota_log import Window
from quota.settings import Settings
from quota.whatif.evaluation import Candidate
from quota.whatif.rates import AlgorithmName, make_algorithm

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
