"""The verdict on a killed deployment: whether it lost, duplicated or changed a decision."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from quota.records.quota_log import Window
from tests.evidence.chaos.records import source_of
from tests.support.reference.log import ABSENT, Change, Entry, Log
from tests.support.reference.model import Reference

_MAX_EXAMPLES = 10
_ROUNDING = 1e-6
_ENTITIES = {"entity", "quota_entity"}


@dataclass(slots=True)
class Verdict:
    """The figures; all counts in `wrong` must be 0."""

    requests: int = 0
    decisions: int = 0
    dead_letters: int = 0
    rejected: int = 0
    quota_changes: int = 0
    copies: int = 0
    """Answers written more than once: the sink is at-least-once."""
    wrong: Counter = field(default_factory=Counter)
    examples: dict = field(default_factory=lambda: defaultdict(list))

    def note(self, defect, example):
        """Count a defect, with an example of the first of each kind."""
        self.wrong[defect] += 1
        if len(self.examples[defect]) < _MAX_EXAMPLES:
            self.examples[defect].append(str(example)[:500])

    def __str__(self):
        return "\n".join(f"{defect}: {count}, as {self.examples[defect]}" for defect, count in self.wrong.items())


ACKNOWLEDGED_LOST = "lost: acknowledged requests or quota changes"
REQUESTED_TWICE = "requests twice on their topic"
LOST = "lost: requests without an answer"
UNASKED = "answers without a request, and requests with both a decision and a dead letter"
COPIES_DIFFER = "copies that differ from each other"
UNLIKE_UNDISTURBED = "answers that differ from the undisturbed run"
TOKENS_WRONG = "tokens or admitted topics that differ from the reference"
REFILLED = "refilled: more tokens than in the reference"
NOT_IN_DELTA = "records missing from Delta"
TWICE_IN_DELTA = "records more than once in Delta"
UNLIKE_IN_DELTA = "records whose row in Delta differs from the topic"
CHECKS = (
    LOST,
    UNASKED,
    COPIES_DIFFER,
    UNLIKE_UNDISTURBED,
    REFILLED,
    TOKENS_WRONG,
    NOT_IN_DELTA,
    TWICE_IN_DELTA,
    UNLIKE_IN_DELTA,
)
"""The defects that are checked after a job was killed."""

BROKER_CHECKS = (ACKNOWLEDGED_LOST, REQUESTED_TWICE, *CHECKS)
"""The defects that are checked after brokers failed."""


def verdict_on(evidence, acknowledged=None):
    """Return the figures of the evidence.

    `acknowledged` has topic, partition, offset (None: unknown), key and value of the records that the brokers have
    acknowledged; None skips the checks of the logs.
    """
    assert acknowledged is None or acknowledged, "the brokers have acknowledged no record"
    verdict = Verdict(requests=len(evidence.requests), quota_changes=len(evidence.quotas))
    decisions = _answers(verdict, evidence.decisions)
    letters = _answers(verdict, evidence.dead_letters)
    verdict.decisions, verdict.dead_letters = len(decisions), len(letters)
    verdict.copies = len(evidence.decisions) + len(evidence.dead_letters) - len(decisions) - len(letters)
    if acknowledged is not None:
        _check_logs(verdict, evidence, acknowledged)
    _check_answers(verdict, evidence, decisions, letters)
    _check_tokens(verdict, evidence, decisions)
    _check_table(verdict, evidence.decision_rows, decisions, _as_decision_row)
    _check_table(verdict, evidence.dead_letter_rows, letters, _as_row)
    changes = {change.position: [change] for change in evidence.quotas}
    _check_table(verdict, evidence.quota_rows, changes, _as_quota_row)
    return verdict


def _answers(verdict, records):
    """Return answers by the position of their request, each with its copies."""
    answers = defaultdict(list)
    for record in records:
        answers[source_of(record)].append(record)
    for position, copies in answers.items():
        if len({(copy.key, copy.value) for copy in copies}) > 1:
            verdict.note(COPIES_DIFFER, (position, copies))
    return answers


def _check_logs(verdict, evidence, acknowledged):
    """Check that the logs hold each acknowledged record where it was written, and no request twice.

    librdkafka does not know the offset of a record whose retry the broker rejected as a duplicate. Such a record may be
    anywhere in its partition.
    """
    logs = evidence.requests + evidence.quotas
    held = {(record.topic, *record.position): (record.key, record.value) for record in logs}
    copies = Counter((record.topic, record.partition, record.key, record.value) for record in logs)
    due = Counter((topic, partition, key, value) for topic, partition, _, key, value in acknowledged)
    for topic, partition, offset, key, value in acknowledged:
        if offset is None:
            is_held = copies[topic, partition, key, value] >= due[topic, partition, key, value]
        else:
            is_held = held.get((topic, partition, offset)) == (key, value)
        if not is_held:
            verdict.note(ACKNOWLEDGED_LOST, (topic, partition, offset))
    ids = Counter(request["request_id"] for record in evidence.requests if (request := _request(record)) is not None)
    for request_id, count in ids.items():
        if count > 1:
            verdict.note(REQUESTED_TWICE, request_id)


def _check_answers(verdict, evidence, decisions, letters):
    """Check that every request has one answer, equal to that of the undisturbed run."""
    requested = {request.position for request in evidence.requests}
    for position in sorted(requested - decisions.keys() - letters.keys()):
        verdict.note(LOST, position)
    for position in sorted((decisions.keys() | letters.keys()) - requested | (decisions.keys() & letters.keys())):
        verdict.note(UNASKED, position)
    undisturbed = (evidence.undisturbed_decisions, evidence.undisturbed_dead_letters)
    for answers, others in zip((decisions, letters), undisturbed, strict=True):
        expected = {source_of(answer): (answer.key, answer.value) for answer in others}
        for position in sorted(expected.keys() | answers.keys()):
            first = answers.get(position, [None])[0]
            if first is None or (first.key, first.value) != expected.get(position):
                verdict.note(UNLIKE_UNDISTURBED, (position, first, expected.get(position)))


def _check_tokens(verdict, evidence, decisions):
    """Check tokens and topics against the reference: no bucket was filled by a restart."""
    expected = _expected_decisions(evidence.requests, evidence.quotas)
    for position, (answer, *_) in decisions.items():
        decision, must = json.loads(answer.value), expected.get(position)
        admitted = tuple(topic["error_code"] == 0 for topic in decision["topics"])
        verdict.rejected += admitted.count(False)
        if must is None:
            verdict.note(TOKENS_WRONG, (position, "is not a request"))
        elif decision["tokens"] is not None and must.after is not None and decision["tokens"] > must.after + _ROUNDING:
            verdict.note(REFILLED, (position, decision["tokens"], must))
        elif admitted != must.admitted or not (
            _near(decision["tokens"], must.after) and _near(decision["tokens_before"], must.before)
        ):
            verdict.note(TOKENS_WRONG, (position, decision["tokens_before"], decision["tokens"], admitted, must))


def _expected_decisions(requests, quotas):
    """Return the expected decision of each request by its position; invalid records have none."""
    changes = sorted((_change(record) for record in quotas), key=lambda change: change.moment)
    entries = {
        record.position: Entry(record.partition, record.timestamp, _request(record))
        for record in sorted(requests, key=lambda record: record.position)
    }
    partitions = {}
    for entry in entries.values():
        if entry.request is not None:
            user = entry.request["user"]
            assert partitions.setdefault(user, entry.partition) == entry.partition, f"{user} is in several partitions"
    reference = Reference(Log(Window(), list(entries.values()), changes))
    return {
        (partition, offset): reference.decide(entry, offset)
        for (partition, offset), entry in entries.items()
        if entry.request is not None
    }


def _request(stored):
    """Return a valid request; None for another record."""
    try:
        request = json.loads(stored.value or b"")
    except ValueError:
        return None
    return request if "request_id" in request else None


def _change(stored):
    value = json.loads(stored.value)
    return Change((value["entity"]["user"], ABSENT), value["controller_mutation_rate"], None, stored.timestamp)


def _near(one, other):
    return one == other if one is None or other is None else abs(one - other) <= _ROUNDING


def _check_table(verdict, rows, answers, as_row: Callable):
    """Check that each answer is in its table once, equal to one of its copies on the topic."""
    stored = defaultdict(list)
    for row in rows:
        stored[row["source"]["partition"], row["source"]["offset"]].append(row)
    for position, copies in answers.items():
        if position not in stored:
            verdict.note(NOT_IN_DELTA, position)
            continue
        if len(stored[position]) > 1:
            verdict.note(TWICE_IN_DELTA, position)
        plain = _plain(stored[position][0])
        if plain not in [_plain(as_row(copy)) for copy in copies]:
            verdict.note(UNLIKE_IN_DELTA, (plain, [_plain(as_row(copy)) for copy in copies]))
    for position in stored.keys() - answers.keys():
        verdict.note(UNLIKE_IN_DELTA, f"{position}: nothing on the topic")


def _as_row(answer):
    """Return a dead letter as the row that its table must have."""
    letter = json.loads(answer.value)
    return letter | {"date": _date(letter["timestamp"])}


def _as_decision_row(answer):
    return _as_row(answer) | {"decided_at": answer.timestamp}


def _as_quota_row(change):
    """Return a quota change as the row that its table must have."""
    value = json.loads(change.value)
    user = value["entity"]["user"]
    return {
        "date": _date(change.timestamp),
        "source": {"topic": change.topic, "partition": change.partition, "offset": change.offset},
        "timestamp": change.timestamp,
        "effective_at": change.timestamp,
        "kind": "quota",
        "entity": value["entity"],
        "user": "<default>" if user is None else user,
        "controller_mutation_rate": value["controller_mutation_rate"],
        "shadow": False,
    }


def _date(moment):
    return datetime.fromtimestamp(moment / 1000, UTC).date()


def _plain(value, name=None):
    """Return values in a common form for JSON and rows: times in epoch ms, maps as dicts, and no nulls."""
    match value:
        case _ if name in _ENTITIES:  # null is the default's name there
            plain = json.loads(value) if isinstance(value, str) else value
        case dict():
            entries = {key: _plain(item, key) for key, item in value.items()}
            plain = {key: item for key, item in entries.items() if item not in (None, {}, [])}
        case [(_, _), *_] if all(isinstance(item, tuple) for item in value):
            plain = dict(value)
        case [*items]:
            plain = [_plain(item) for item in items]
        case datetime():
            plain = round(value.replace(tzinfo=UTC).timestamp() * 1000)
        case date():
            plain = value.isoformat()
        case _:
            plain = value
    return plain
