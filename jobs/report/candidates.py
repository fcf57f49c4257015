"""What other quotas would have done: a file of what-if comparisons, for the report."""

from pathlib import Path

import msgspec

from quota.errors import BadInput
from quota.text import format_tags
from quota.whatif.result import Result, Totals

_MOST = 20
"""Senders of a candidate that are told apart."""


class Tried(msgspec.Struct, frozen=True):
    """What would have become of the requests of all, or of one sender, by one candidate."""

    candidate: str
    sender: str
    load: Totals


class Candidates(msgspec.Struct, frozen=True):
    """All that were compared; of each all senders together, and the busiest."""

    tried: list[Tried]
    left_out: int
    """Senders of the candidate that has the most."""


def read_candidates(file: Path) -> Candidates:
    """Read what `backtest --json` has printed.

    Raises:
        BadInput: it is not that.
    """
    try:
        outcomes = msgspec.json.decode(file.read_bytes(), type=Result).outcomes
    except OSError as error:
        raise BadInput(f"--backtest {file}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"--backtest {file}: not what backtest --json prints: {error}") from None
    tried = []
    for each in outcomes:
        tried.append(Tried(each.name, "all together", each.load))
        for sender in each.senders[:_MOST]:
            tags = {"user": sender.user, "client-id": sender.client_id}
            tried.append(Tried(each.name, format_tags(tags), sender.load))
    return Candidates(tried, max([0, *(len(each.senders) - _MOST for each in outcomes)]))
