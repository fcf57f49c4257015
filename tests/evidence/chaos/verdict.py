"""Whether a deployment that was killed lost, doubled or changed a decision, by the evidence alone."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from tests.evidence.chaos.evidence import source_of
from tests.evidence.chaos.fold import expected_decisions

_SAID = 10
_ROUNDING = 1e-6
_ENTITIES = {"entity", "quota_entity"}


@dataclass(slots=True)
class Verdict:
    """The figures; all that are in `wrong` must be 0."""

    requests: int = 0
    decisions: int = 0
    dead_letters: int = 0
    refused: int = 0
    quota_changes: int = 0
    copies: int = 0
    """Answers written again after a kill: the sink is at-least-once."""
    wrong: Counter = field(default_factory=Counter)
    examples: dict = field(default_factory=lambda: defaultdict(list))

    def note(self, what, example):
        """Count something that is wrong; the first of each kind are kept to be told."""
        self.wrong[what] += 1
        if len(self.examples[what]) < _SAID:
            self.examples[what].append(str(example)[:500])

    def __str__(self):
        return "\n".join(f"{what}: {count}, as {self.examples[what]}" for what, count in self.wrong.items())


LOST = "lost: a request without an answer"
UNASKED = "an answer to nothing, or a decision and a dead letter for one request"
COPIES_DIFFER = "copies that differ"
UNLIKE_UNDISTURBED = "unlike the undisturbed run"
TOKENS_WRONG = "tokens or topics unlike the reference fold"
REFILLED = "refilled: more tokens than the reference fold"
NOT_IN_DELTA = "not in Delta"
TWICE_IN_DELTA = "in Delta more than once"
UNLIKE_IN_DELTA = "in Delta unlike on the topic"
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
"""All that could be wrong."""


def judge(evidence):
    """The figures of the evidence."""
    verdict = Verdict(requests=len(evidence.requests), quota_changes=len(evidence.quotas))
    decisions = _answers(verdict, evidence.decisions)
    letters = _answers(verdict, evidence.dead_letters)
    verdict.decisions, verdict.dead_letters = len(decisions), len(letters)
    verdict.copies = len(evidence.decisions) + len(evidence.dead_letters) - len(decisions) - len(letters)
    _judge_answers(verdict, evidence, decisions, letters)
    _judge_tokens(verdict, evidence, decisions)
    _judge_table(verdict, evidence.decision_rows, decisions, _as_decision_row)
    _judge_table(verdict, evidence.dead_letter_rows, letters, _as_row)
    changes = {each.place: [each] for each in evidence.quotas}
    _judge_table(verdict, evidence.quota_rows, changes, _as_quota_row)
    return verdict


def _answers(verdict, records):
    """Answers by the request they are about, each with its copies."""
    found = defaultdict(list)
    for each in records:
        found[source_of(each)].append(each)
    for place, copies in found.items():
        if len({(each.key, each.value) for each in copies}) > 1:
            verdict.note(COPIES_DIFFER, (place, copies))
    return found


def _judge_answers(verdict, evidence, decisions, letters):
    """Every request has one answer, the one that it had undisturbed."""
    asked = {each.place for each in evidence.requests}
    for place in sorted(asked - decisions.keys() - letters.keys()):
        verdict.note(LOST, place)
    for place in sorted((decisions.keys() | letters.keys()) - asked | (decisions.keys() & letters.keys())):
        verdict.note(UNASKED, place)
    undisturbed = (evidence.undisturbed_decisions, evidence.undisturbed_dead_letters)
    for answers, others in zip((decisions, letters), undisturbed, strict=True):
        expected = {source_of(each): (each.key, each.value) for each in others}
        for place in sorted(expected.keys() | answers.keys()):
            first = answers.get(place, [None])[0]
            if first is None or (first.key, first.value) != expected.get(place):
                verdict.note(UNLIKE_UNDISTURBED, (place, first, expected.get(place)))


def _judge_tokens(verdict, evidence, decisions):
    """Tokens and topics are what the logs alone come to: no bucket was filled by a restart."""
    expected = expected_decisions(evidence.requests, evidence.quotas)
    for place, (answer, *_) in decisions.items():
        told, must = json.loads(answer.value), expected.get(place)
        admitted = tuple(topic["error_code"] == 0 for topic in told["topics"])
        verdict.refused += admitted.count(False)
        if must is None:
            verdict.note(TOKENS_WRONG, (place, "is no request"))
        elif told["tokens"] is not None and must.tokens is not None and told["tokens"] > must.tokens + _ROUNDING:
            verdict.note(REFILLED, (place, told["tokens"], must))
        elif admitted != must.admitted or not (
            _near(told["tokens"], must.tokens) and _near(told["tokens_before"], must.tokens_before)
        ):
            verdict.note(TOKENS_WRONG, (place, told["tokens_before"], told["tokens"], admitted, must))


def _near(one, other):
    return one == other if one is None or other is None else abs(one - other) <= _ROUNDING


def _judge_table(verdict, rows, answers, as_row: Callable):
    """Each answer is in its table once, as one of its copies on the topic tells it."""
    kept = defaultdict(list)
    for row in rows:
        kept[row["source"]["partition"], row["source"]["offset"]].append(row)
    for place, copies in answers.items():
        if place not in kept:
            verdict.note(NOT_IN_DELTA, place)
            continue
        if len(kept[place]) > 1:
            verdict.note(TWICE_IN_DELTA, place)
        found = _plain(kept[place][0])
        if found not in [_plain(as_row(copy)) for copy in copies]:
            verdict.note(UNLIKE_IN_DELTA, (found, [_plain(as_row(copy)) for copy in copies]))
    for place in kept.keys() - answers.keys():
        verdict.note(UNLIKE_IN_DELTA, f"{place}: nothing on the topic")


def _as_row(answer):
    """A dead letter as its table must hold it."""
    told = json.loads(answer.value)
    return told | {"date": _date(told["timestamp"])}


def _as_decision_row(answer):
    return _as_row(answer) | {"decided_at": answer.timestamp}


def _as_quota_row(change):
    """A quota change as its table must hold it."""
    told = json.loads(change.value)
    user = told["entity"]["user"]
    return {
        "date": _date(change.timestamp),
        "source": {"topic": change.topic, "partition": change.partition, "offset": change.offset},
        "timestamp": change.timestamp,
        "effective_at": change.timestamp,
        "kind": "quota",
        "entity": told["entity"],
        "user": "<default>" if user is None else user,
        "controller_mutation_rate": told["controller_mutation_rate"],
        "shadow": False,
    }


def _date(moment):
    return datetime.fromtimestamp(moment / 1000, UTC).date()


def _plain(value, name=None):
    """One form for JSON and for rows: moments in epoch ms, maps as dicts, and nothing where there is null."""
    match value:
        case _ if name in _ENTITIES:  # there null is a name: the default's
            plain = json.loads(value) if isinstance(value, str) else value
        case dict():
            found = {key: _plain(each, key) for key, each in value.items()}
            plain = {key: each for key, each in found.items() if each not in (None, {}, [])}
        case [(_, _), *_] if all(isinstance(each, tuple) for each in value):
            plain = dict(value)
        case [*items]:
            plain = [_plain(each) for each in items]
        case datetime():
            plain = round(value.replace(tzinfo=UTC).timestamp() * 1000)
        case date():
            plain = value.isoformat()
        case _:
            plain = value
    return plain
