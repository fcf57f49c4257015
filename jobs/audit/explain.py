"""How a decision came about, from the tables of the audit."""

import re

import msgspec
from confluent_kafka import KafkaException

from jobs.audit.decisions import AuditedDecisions
from jobs.audit.quota_changes import read_quota_log
from jobs.audit.reader import open_table, reading, stands_at
from jobs.audit.tables import DEAD_LETTERS
from quota.errors import BadInput, BadRecord, MutationQuotaError
from quota.explanation.explanation import Explanation, Neighbours, explain
from quota.explanation.quota_history import QuotaHistory
from quota.kafka.clients import reason
from quota.kafka.stored import read_topic
from quota.records import codec
from quota.records.decision import Decision
from quota.records.record import Source
from quota.settings.model import Settings
from quota.settings.storage import tables_path

_ID = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d{1,9})-(?P<offset>\d{1,18})")
_LATEST = 10_000
"""Of each partition of the decisions topic, so many are looked through for one that is not kept yet."""

_decoder = msgspec.json.Decoder(Decision)


def explained(settings: Settings, decision_id: str, neighbours: int) -> Explanation:
    """Explain a decision, with as many of its bucket before and behind it.

    Raises:
        BadInput: there is no such decision, or none can be named so.
        MutationQuotaError: a table cannot be read, or does not have the decision yet.
    """
    source = source_of_id(decision_id)
    with reading(tables_path(settings)):
        kept = AuditedDecisions(settings)
        decision = kept.find(source)
        if decision is None:
            raise _absent(settings, source)
        log = read_quota_log(settings, decision.timestamp, with_clusters=decision.callback is not None)
        quotas = QuotaHistory(log, settings.quota.callbacks)
        around = Neighbours(kept.before(decision), kept.behind(decision), neighbours)
        return explain(decision, around, quotas, settings.quota.window)


def source_of_id(decision_id: str) -> Source:
    """Where the request of a decision stands.

    Raises:
        BadInput: it is no decision's id.
    """
    found = _ID.fullmatch(decision_id)
    if found is None:
        raise BadInput(
            f"{decision_id!r} is no decision's id: expected topic-partition-offset, as in mutation-requests-0-17"
        )
    return Source(found["topic"], int(found["partition"]), int(found["offset"]))


def _absent(settings: Settings, source: Source) -> MutationQuotaError:
    """Why a decision is not in the table."""
    letters = open_table(settings, DEAD_LETTERS).to_table(columns=["error"], filter=stands_at(source)).to_pylist()
    if letters:
        return BadInput(f"{source} is no decision, but a dead letter: {letters[0]['error']}")
    topic, cluster = settings.topics.decisions, settings.kafka.connection
    try:
        decision = _in_topic(settings, source)
    except KafkaException as error:
        return BadInput(
            f"{source}: no such decision is kept in the table; whether it stands in {topic} and is not kept yet, "
            f"{cluster} cannot tell: {reason(error)}"
        )
    if decision is None:
        return BadInput(f"{source}: no such decision, neither in the table nor among the latest of {topic}")
    return MutationQuotaError(
        f"{source} is decided ({decision.outcome.value}, throttle {decision.throttle_time_ms} ms) and not kept yet: "
        "mutation-quota audit keeps it; try again when it has (audit.trigger_seconds)"
    )


def _in_topic(settings: Settings, source: Source) -> Decision | None:
    connection, topic = settings.kafka.connection, settings.topics.decisions
    for message in read_topic(connection, topic, settings.kafka.timeout_seconds, _LATEST):
        try:
            decision = codec.decode(message.value(), _decoder)
        except BadRecord:
            continue  # the audit tells of what is none of ours
        if decision.source == source:
            return decision
    return None
