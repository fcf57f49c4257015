"""What other quotas would have done: a file of what-if comparisons, for the report."""

from pathlib import Path

import msgspec

from quota.backtest_result import Load, Result
from quota.entity import written_tags
from quota.errors import BadInput

_MOST = 20
"""Senders of a candidate that are told apart."""


class Outcome(msgspec.Struct, frozen=True):
    """What would have become of one tenant's requests."""

    tenant: str
    admitted: int
    """Mutations."""
    refused: int
    """Mutations."""
    throttled_seconds: float
    peak_mutations: int
    """The most that were admitted in a second."""


class Candidate(msgspec.Struct, frozen=True):
    """One set of quotas."""

    name: str
    tenants: list[Outcome]


def read_candidates(file: Path) -> list[Candidate]:
    """Read what `backtest --json` has printed; of each candidate all together, and the busiest senders.

    Raises:
        BadInput: it is not that.
    """
    try:
        result = msgspec.json.decode(file.read_bytes(), type=Result)
    except OSError as error:
        raise BadInput(f"--backtest {file}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"--backtest {file}: not what backtest --json prints: {error}") from None
    return [
        Candidate(
            each.name,
            [
                _outcome("all together", each.load),
                *(
                    _outcome(written_tags({"user": sender.user, "client-id": sender.client_id}), sender.load)
                    for sender in each.senders[:_MOST]
                ),
            ],
        )
        for each in result.outcomes
    ]


def _outcome(tenant: str, load: Load) -> Outcome:
    return Outcome(tenant, load.admitted, load.refused, load.throttled_seconds, load.peak)
