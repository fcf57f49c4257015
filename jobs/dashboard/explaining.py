"""Explains a decision of the last hour from the topics alone."""

import msgspec

from jobs.dashboard.state import LiveState
from quota.explanation.explanation import Neighbour, explain
from quota.explanation.explanation_text import explanation_rows, explanation_title
from quota.explanation.quota_history import QuotaHistory
from quota.settings import Settings

_NEIGHBOURS = 3


class ShownExplanation(msgspec.Struct, frozen=True):
    """An explanation as the page shows it."""

    title: str
    lines: list[tuple[str, str]]
    """Each part of the explanation with its text; the name of the part is empty if it continues."""
    before: list[Neighbour]
    after: list[Neighbour]
    note: str
    """A note on missing parts, because the page has only the last hour; empty if nothing is missing."""


def explain_recent(state: LiveState, settings: Settings, decision_id: str) -> ShownExplanation | None:
    """Return the explanation of a decision; None if the decision is not stored."""
    found = state.find(decision_id, _NEIGHBOURS)
    if found is None:
        return None
    decision, neighbours = found
    entries = [entry for entry in state.entries() if entry.timestamp <= decision.timestamp]
    history = QuotaHistory(entries, settings.quota.callbacks)
    explanation = explain(decision, neighbours, history, settings.quota.window)
    is_first = explanation.refill is not None and explanation.refill.written_by is None
    return ShownExplanation(
        explanation_title(decision),
        list(explanation_rows(explanation)),
        explanation.before,
        explanation.after,
        "This page has only the decisions of the last hour. If the bucket was used before, "
        f"`mutation-quota explain {decision.decision_id}` shows more, from the audit's tables."
        if is_first
        else "",
    )
