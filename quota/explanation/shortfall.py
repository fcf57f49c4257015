"""What the client of an exhausted quota is told in its own error: a sentence that names nobody else."""

from typing import Self

import msgspec

from quota.records.decision import Decision
from quota.records.entity import Tags
from quota.text import format_duration, format_tokens, legible

REASON = "{reason}"
"""The place of the sentence in the setting `quota.rejection_message`."""
_MAX_NAME = 100
"""The length to which names are cut: each topic of a request has the sentence."""


class Shortfall(msgspec.Struct, frozen=True):
    """A bucket in debt; `explanation_text` has what an operator reads about it."""

    client: tuple[str, str]
    """The user and client-id that are told."""
    tags: Tags
    rate: float
    """Q [mutations/s]."""
    tokens: float
    """K, which is negative [mutations]."""
    decision_id: str | None = None
    """The id of the decision that told K; None if it is computed without one."""

    @classmethod
    def of(cls, decision: Decision) -> Self | None:
        """Return the bucket as a decision left it; None if it touched none."""
        if decision.quota is None or decision.tokens is None:
            return None
        client = decision.user, decision.client_id
        return cls(client, decision.tags, decision.quota, decision.tokens, decision.decision_id)

    def sentence(self, left_ms: int) -> str:
        """Return what was exceeded, by how much, and that the client may try again in `left_ms`."""
        unit = "partition/s" if self.rate == 1 else "partitions/s"
        debt = format_tokens(min(self.tokens, 0)).removeprefix("-").removesuffix(".0")
        again = f"try again in {format_duration(left_ms)}" if left_ms > 0 else "try again now"
        decided = f"; decision {self.decision_id}" if self.decision_id else ""
        user, client_id, more = self.tags
        who = " with ".join(f"{kind} {_shown(name)}" for kind, name in self.tags.items())
        if more or user not in {"", self.client[0]} or client_id not in {"", self.client[1]}:
            who = "everybody who shares this quota"  # a callback's tags may name others
        elif not user:
            who += " of all users"
        return f"{who} may change {self.rate:.10g} {unit} and is {debt} over; {again}{decided}"


def _shown(name: str) -> str:
    return legible(name) if len(name) <= _MAX_NAME else f"{legible(name[:_MAX_NAME])}..."


def client_message(template: str, sentence: str | None) -> str | None:
    """Return the error message of a rejected topic by the setting `quota.rejection_message`; None for none."""
    return template.replace(REASON, (sentence or "").removesuffix(".")) or None
