"""Explains a decision from the audit's tables."""

from confluent_kafka import KafkaException

from jobs.audit.decisions import AuditedDecisions, Selection
from jobs.audit.quota_changes import read_quota_log
from jobs.audit.tables.reader import open_table, read_errors
from jobs.audit.tables.specs import DEAD_LETTERS
from quota.errors import BadInput, BadRecord, ClusterError, MutationQuotaError, NotFound
from quota.explanation.explanation import Explanation, Neighbours, explain
from quota.explanation.quota_history import QuotaHistory
from quota.kafka.clients import reason
from quota.kafka.reading import Skipped, read_topic
from quota.records.decision import Decision, read_decision
from quota.records.record import Source
from quota.settings import Settings
from quota.text import format_duration, format_tags, format_time

_LATEST = 10_000
"""The number of records at the end of each partition of the decisions topic that are searched for a decision."""


def explain_decision(settings: Settings, decision_id: str, neighbours: int) -> Explanation:
    """Explain a decision, with this number of decisions of its bucket before it and after it."""
    source = parse_decision_id(decision_id)
    with read_errors(settings):
        decisions = AuditedDecisions(settings)
        decision = decisions.find(source)
        if decision is None:
            raise _absent_error(settings, source)
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
        until = "no decisions yet" if newest_at is None else f"decisions up to {format_time(newest_at)}"
        newer = f"while it is running, newer ones follow every {settings.audit.trigger_seconds:g} s"
        raise NotFound(f"no decision{whose and f' of {whose}'} rejected a topic; the audit has {until}; {newer}")
    return newest[0].decision_id, newest_at


def parse_decision_id(decision_id: str) -> Source:
    """Return the position of the request that a decision's id names."""
    source = Source.parse(decision_id)
    if source is None:
        raise BadInput(
            f"{decision_id!r} is not a decision id: expected topic-partition-offset, such as mutation-requests-0-17"
        )
    return source


def _absent_error(settings: Settings, source: Source) -> MutationQuotaError:
    """Return the error that says why the table has no decision on this request."""
    letters = open_table(settings, DEAD_LETTERS).at(source)
    if letters:
        return NotFound(f"{source} is not a decision but a dead letter: {letters[0]['error']}")
    topic, cluster = settings.topics.decisions, settings.kafka.connection
    try:
        decision = _find_in_topic(settings, source)
    except KafkaException as error:
        return ClusterError(
            f"{source}: the table has no such decision, and {topic} cannot be searched for a newer one: "
            f"Kafka at {cluster}: {reason(error)}"
        )
    if decision is None:
        return NotFound(f"{source}: no such decision in the table or among the latest records of {topic}")
    answer = f"{decision.outcome.value}, throttle {format_duration(decision.throttle_time_ms)}"
    return MutationQuotaError(
        f"{source} was decided ({answer}), but the audit has not written it yet: "
        f"try again in {settings.audit.trigger_seconds:g} s (audit.trigger_seconds), "
        "and check that mutation-quota audit is running"
    )


def _find_in_topic(settings: Settings, source: Source) -> Decision | None:
    connection, topic = settings.kafka.connection, settings.topics.decisions
    skipped = Skipped("a decision")
    for message in read_topic(connection, topic, settings.kafka.timeout_seconds, _LATEST):
        try:
            decision = read_decision(message.value())
        except BadRecord as error:
            skipped.add(message, error)
            continue
        if decision.source == source:
            return decision
    return None
