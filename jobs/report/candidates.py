"""What other quotas would have done: a file of what-if comparisons, for the report."""

from pathlib import Path

import msgspec

from quota.errors import BadInput


class Outcome(msgspec.Struct, frozen=True):
    """What would have become of one tenant's requests."""

    tenant: str
    admitted: int
    """Mutations."""
    refused: int
    """Mutations."""
    throttled_seconds: float
    peak_mutations: float
    """The most that were admitted in a second."""


class Candidate(msgspec.Struct, frozen=True):
    """One set of quotas."""

    name: str
    tenants: list[Outcome]


class _Comparison(msgspec.Struct, frozen=True):
    candidates: list[Candidate]


def read_candidates(file: Path) -> list[Candidate]:
    """Read a file of JSON: {"candidates": [...]}; fields that are not known are passed over.

    Raises:
        BadInput: it is none.
    """
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Comparison).candidates
    except OSError as error:
        raise BadInput(f"--backtest {file}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"--backtest {file}: no what-if comparison: {error}") from None
