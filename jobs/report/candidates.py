"""A file of what-if comparisons, for the report."""

from pathlib import Path

import msgspec

from quota.errors import BadInput
from quota.text import format_tags
from quota.whatif.result import Result, Totals

_MAX_SENDERS = 20
"""The largest number of listed senders of a candidate."""


class CandidateTotals(msgspec.Struct, frozen=True):
    """The totals of one candidate, for all senders or for one."""

    candidate: str
    sender: str
    load: Totals


class Candidates(msgspec.Struct, frozen=True):
    """The compared candidates: the totals of each for all senders, and for the busiest ones."""

    tried: list[CandidateTotals]
    left_out: int
    """The largest number of senders of a candidate that are not listed."""


def read_candidates(file: Path) -> Candidates:
    """Read the output of `backtest --output json`."""
    try:
        outcomes = msgspec.json.decode(file.read_bytes(), type=Result).outcomes
    except OSError as error:
        raise BadInput(f"--backtest {file}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"--backtest {file}: not the output of backtest --output json: {error}") from None
    tried = []
    for outcome in outcomes:
        tried.append(CandidateTotals(outcome.name, "all senders", outcome.load))
        for sender in outcome.senders[:_MAX_SENDERS]:
            tags = {"user": sender.user, "client-id": sender.client_id}
            tried.append(CandidateTotals(outcome.name, format_tags(tags), sender.load))
    return Candidates(tried, max([0, *(len(outcome.senders) - _MAX_SENDERS for outcome in outcomes)]))
