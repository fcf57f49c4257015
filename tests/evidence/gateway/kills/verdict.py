"""Checks of the cluster and the decisions after the clients have ended."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from quota.kafka.reading import read_topic
from quota.records.decision import Decision, TopicDecision, read_decision
from quota.records.request import Operation
from quota.settings import Settings
from tests.evidence.gateway.kills.clients import Tally
from tests.support.deployment import with_sections
from tests.support.topics import admin_of

REPEATS_SECONDS = 600.0
"""`repeats.window_seconds`: longer than a retry takes to arrive."""

_SECONDS = 30
_OPERATIONS = {
    "created": Operation.CREATE_TOPICS,
    "grown": Operation.CREATE_PARTITIONS,
    "deleted": Operation.DELETE_TOPICS,
}


@dataclass
class Report:
    """The figures; `wrong` is empty if all checks pass."""

    tallies: list[Tally]
    decisions: int = 0
    withdrawn: int = 0
    """Decisions whose charge was given back, because nobody waited for them any longer."""
    repeats: Counter[str] = field(default_factory=Counter)
    """Decisions without a charge, because the same request was admitted before."""
    paid_twice: Counter[str] = field(default_factory=Counter)
    """Topics that were charged more than once for the same, by operation."""
    charged_minus_made: int = 0
    """The partitions that were charged, without those withdrawn, and not made; or made, and not charged."""
    wrong: list[str] = field(default_factory=list)

    @property
    def steps(self) -> Counter[str]:
        """The creations, growths and deletions that are done."""
        return sum((tally.steps for tally in self.tallies), Counter[str]())

    def total(self, name: str) -> int:
        """Return the sum of a count over all clients' tallies."""
        return sum(getattr(tally, name) for tally in self.tallies)


def remembering(settings: Settings) -> Settings:
    """Return a deployment whose job remembers admitted requests for as long as the checks expect."""
    return with_sections(settings, repeats={"window_seconds": REPEATS_SECONDS})


def check(settings: Settings, tallies: list[Tally], prefix: str) -> Report:
    """Compare the topics of the cluster and the clients' answers with the decisions, and return the report.

    All clients' topics have names with the prefix, and no others have.
    """
    report = Report(tallies, wrong=[fault for tally in tallies for fault in tally.wrong])
    admitted = _admitted(settings, report, prefix)
    topics = admin_of(settings).list_topics(timeout=_SECONDS).topics
    standing = {name: len(topic.partitions) for name, topic in topics.items() if name.startswith(prefix)}
    check_charges(report, admitted, standing)
    for name, partitions in standing.items():
        check_topic(report, name, partitions, admitted)
    for tally in tallies:
        check_answers(report, tally, admitted, standing)
    return report


_Admitted = dict[tuple[Operation, str], list[tuple[TopicDecision, bool]]]
"""The admitted topics, and whether each was free as a repeat, by operation and name."""


def _admitted(settings: Settings, report: Report, prefix: str) -> _Admitted:
    decisions: dict[str, Decision] = {}
    for message in read_topic(settings.kafka.connection, settings.topics.decisions, _SECONDS):
        decision = read_decision(message.value())
        decisions.setdefault(decision.decision_id, decision)
    report.decisions = len(decisions)
    admitted: _Admitted = defaultdict(list)
    withdrawn = {decision.withdraws.decision_id for decision in decisions.values() if decision.withdraws}
    report.withdrawn = len(withdrawn - {None})
    for decision in decisions.values():
        if decision.validate_only or decision.decision_id in withdrawn:
            continue
        free = decision.repeats.topics if decision.repeats else 0
        for index, topic in enumerate(decision.topics):
            if not topic.error_code and topic.name.startswith(prefix):
                admitted[decision.operation, topic.name].append((topic, index < free))
    return admitted


def check_charges(report: Report, admitted: _Admitted, standing: Mapping[str, int]) -> None:
    """Note what was charged more than once, or for what was not made, or not at all; `standing` are the partitions."""
    paid: Counter[tuple[Operation, str, object]] = Counter()
    unmade = Counter({name: -partitions for name, partitions in standing.items()})
    for (operation, name), topics in admitted.items():
        report.repeats[operation.name] += sum(free for _, free in topics)
        charged = [topic for topic, free in topics if not free]
        paid.update((operation, name, topic.count) for topic in charged)
        partitions = sum(topic.partitions for topic in charged)
        unmade[name] += -partitions if operation is Operation.DELETE_TOPICS else partitions
    for name, partitions in unmade.items():
        if partitions:
            report.charged_minus_made += abs(partitions)
            report.wrong.append(f"{partitions} partitions of {name} were charged and do not exist")
    for (operation, name, _), times in paid.items():
        if times > 1:
            report.paid_twice[operation.name] += 1
            report.wrong.append(f"{operation.name} of {name} was charged {times} times")


def check_answers(report: Report, tally: Tally, admitted: _Admitted, standing: Collection[str]) -> None:
    """Check that each finished step of a client was admitted, and that deleted topics do not exist."""
    for (done, name), code in tally.answers.items():
        there = "is there" if name in standing else "is not there"
        if (_OPERATIONS[done], name) not in admitted:
            report.wrong.append(f"{name} was {done} (error {code}) and not admitted; it {there}")
        elif done == "deleted" and name in standing:
            report.wrong.append(f"{name} was deleted (error {code}), and {there}")


def check_topic(report: Report, name: str, partitions: int, admitted: _Admitted) -> None:
    """Check that a topic has the partitions of an admitted creation, or of a growth to exactly as many."""
    created = {topic.partitions for topic, _ in admitted.get((Operation.CREATE_TOPICS, name), ())}
    grown = {topic.count for topic, _ in admitted.get((Operation.CREATE_PARTITIONS, name), ())}
    if not created:
        report.wrong.append(f"{name} is there, and was never admitted")
    if partitions not in created | grown:
        report.wrong.append(f"{name} has {partitions} partitions; admitted were {created}, and growths to {grown}")
