"""Explains a decision from the audit's tables."""

from jobs.audit.decisions import AuditedDecisions, Selection
from jobs.audit.quota_changes import read_quota_log
from jobs.audit.tables.reader import open_table, read_errors
from jobs.audit.tables.specs import DEAD_LETTERS
from quota.errors import BadInput, NotFound
from quota.explanation.explanation import Explanation, Neighbours, explain
from quota.explanation.quota_history import QuotaHistory
from quota.records.record import Source
from quota.settings import Settings
from quota.text import format_tags, format_time


def explain_decision(settings: Settings, decision_id: str, neighbours: int) -> Explanation:
    """Explain a decision, with this number of decisions of its bucket before it and after it."""
    source = parse_decision_id(decision_id)
    with read_errors(settings):
        decisions = AuditedDecisions(settings)
        decision = decisions.find(source)
        if decision is None:
            raise _absent_error(settings, decisions, source)
        log = read_quota_log(settings, decision.timestamp, with_clusters=decision.callback is not None)
        quotas = QuotaHistory(log, settings.quota.callbacks)
        of_bucket = Neighbours(decisions.before(decision), decisions.after(decision), neighbours)
        return explain(decision, of_bucket, quotas, settings.quota.window)


def find_newest(settings: Settings, selection: Selection) -> tuple[str, int | None]:
    """Return the id of the newest decision of a selection, and the time of the newest one of all (epoch ms)."""
    with read_errors(settings):
        decisions = AuditedDecisions(settings)
        newest_at = decisions.newest_at()
        newest = decisions.latest(selection, 1)
    if not newest:
        names = {"user": selection.user, "client-id": selection.client_id, "topic": selection.topic}
        whose = format_tags({part: name for part, name in names.items() if name is not None})
        raise NotFound(f"no decision{whose and f' of {whose}'} rejected a topic; {_reach(settings, newest_at)}")
    return newest[0].decision_id, newest_at


def parse_decision_id(decision_id: str) -> Source:
    """Return the position of the request that a decision's id names."""
    source = Source.parse(decision_id)
    if source is None:
        raise BadInput(
            f"{decision_id!r} is not a decision id: expected topic-partition-offset, such as mutation-requests-0-17"
        )
    return source


def _absent_error(settings: Settings, decisions: AuditedDecisions, source: Source) -> NotFound:
    """Return the error that says why the table has no decision on this request."""
    letters = open_table(settings, DEAD_LETTERS).at(source).to_pylist()
    if letters:
        return NotFound(f"{source} is not a decision but a dead letter: {letters[0]['error']}")
    return NotFound(f"{source}: no such decision in the table; {_reach(settings, decisions.newest_at())}")


def _reach(settings: Settings, newest_at: int | None) -> str:
    """Return up to when the audit has decisions, the newest at `newest_at` (epoch ms), and how soon others follow."""
    until = "no decisions yet" if newest_at is None else f"decisions up to {format_time(newest_at)}"
    newer = f"while it is running, newer ones follow every {settings.audit.trigger_seconds:g} s"
    return f"the audit has {until}; {newer}"
