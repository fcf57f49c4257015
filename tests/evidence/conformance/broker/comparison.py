"""The same requests to a real broker, which enforces its own quota, and to the project's job on the same broker.

The two see a request at slightly different moments. What is compared is the moment at which the debt is paid off, as
each told it: the throttle time, and the time since its first request. Of the project both are exact: its decisions
carry the broker's timestamps, and the time told may be up to 1 ms more, rounded up. Of the broker the first and the
last request were each charged at some moment between sending and answer, so that its time may be off by as much as
these two took: that is the bound, taken of the very requests, and 1 ms of rounding.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from quota.records.decision import Decision
from quota.records.request import Mode
from tests.evidence.conformance.broker_admin import BrokerAnswer, JavaAdmin, Topic, ask_as_old_client
from tests.evidence.conformance.comparison import MismatchError
from tests.evidence.conformance.deciding_job import DecidingJob
from tests.evidence.conformance.scenarios import CREATE, Ask, Expected, Scenario

Pair = tuple[BrokerAnswer, Decision]
"""What the broker and the project answered to one request."""

_ROUNDING_MS = 1.0
_TAKES_HOLD_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Row:
    """A request, both answers, and when the debt is paid off by them: ms after the first request."""

    scenario: Scenario
    ask: Ask
    kafka: str
    kafka_told: int
    kafka_paid_off: tuple[float, float]
    """From, to: the broker's own timing is known so well."""
    project: str
    project_told: int
    project_paid_off: float


def play_all(scenarios: Iterable[Scenario], java: JavaAdmin, address: str, job: DecidingJob) -> Iterator[Row]:
    """Play scenarios one after another, and take their quotas from the broker again.

    Raises:
        MismatchError: an answer is not what it must be.
    """
    scenarios = list(scenarios)
    java.ask("conformance-setup", CREATE, [Topic("conformance-warm-up", 1)])
    for scenario in scenarios:
        if scenario.before:
            java.ask("conformance-setup", CREATE, scenario.before)
        java.set_quota(scenario.client_id, scenario.rate)
        job.set_quota(scenario.client_id, scenario.rate)
    time.sleep(_TAKES_HOLD_SECONDS)  # until the controller has heard of it
    try:
        for scenario in scenarios:
            yield from _Play(scenario, java, address, job).rows()
    finally:
        for scenario in scenarios:
            java.set_quota(scenario.client_id, None)


class _Play:
    def __init__(self, scenario: Scenario, java: JavaAdmin, address: str, job: DecidingJob) -> None:
        self._scenario = scenario
        self._java = java
        self._address = address
        self._job = job
        self._began = 0.0
        self._changed_at = 0

    def rows(self) -> Iterator[Row]:
        """Ask in time, whatever a decision takes; hear the decisions afterwards."""
        asked = [self._ask(ask) for ask in self._scenario.asks]
        answers = [(kafka, self._job.decision(request)) for request, kafka in asked]
        for ask, answer in zip(self._scenario.asks, answers, strict=True):
            yield compared(self._scenario, ask, answers[0], answer, self._changed_at)

    def _ask(self, ask: Ask) -> tuple[str, BrokerAnswer]:
        if self._began:
            time.sleep(max(0.0, self._began + ask.at - time.time()))
        client = self._scenario.client_id
        if ask.new_rate is not None:
            self._java.set_quota(client, ask.new_rate)
            self._changed_at = self._job.set_quota(client, ask.new_rate)
            time.sleep(_TAKES_HOLD_SECONDS)
        mode, validate_only = self._scenario.mode, ask.validate_only
        request = self._job.send(client, mode, ask.operation, ask.topics, validate_only=validate_only)
        answers = request, self._ask_kafka(ask)
        self._began = self._began or time.time()
        return answers

    def _ask_kafka(self, ask: Ask) -> BrokerAnswer:
        client = self._scenario.client_id
        if self._scenario.mode is Mode.PERMISSIVE:
            return ask_as_old_client(self._address, client, ask.operation, ask.topics)
        return self._java.ask(client, ask.operation, ask.topics, validate_only=ask.validate_only)


def compared(scenario: Scenario, ask: Ask, first: Pair, now: Pair, changed_at: int = 0) -> Row:
    """Both answers to a request, once they are what they must be.

    Args:
        scenario: which.
        ask: which request of it.
        first: the answers to its first request.
        now: the answers to this one.
        changed_at: when the quota was changed, epoch ms.

    Raises:
        MismatchError: one is not.
    """
    (first_kafka, first_decision), (kafka, project) = first, now
    least, most = max(0.0, kafka.sent - first_kafka.heard), kafka.heard - first_kafka.sent
    row = Row(
        scenario,
        ask,
        "".join("AR"[not each] for each in kafka.admitted),
        kafka.told_ms,
        (kafka.told_ms + least, kafka.told_ms + most),
        "".join("AR"[topic.error_code != 0] for topic in project.topics),
        project.throttle_time_ms,
        project.throttle_time_ms + project.timestamp - first_decision.timestamp,
    )
    low, high = row.kafka_paid_off
    _check(row, "Kafka", ask.expected, (row.kafka, row.kafka_told), (low - _ROUNDING_MS, high + _ROUNDING_MS))
    expected, at = _at(ask, changed_at - first_decision.timestamp), row.project_paid_off
    _check(row, "the project", expected, (row.project, row.project_told), (at - _ROUNDING_MS, at))
    return row


def _at(ask: Ask, changed: float) -> Expected:
    """What the project must answer, once it is known when the quota was changed."""
    expected = ask.here or ask.expected
    when = expected.paid_off
    return Expected(expected.verdicts, when(changed) if callable(when) else when)


def _check(row: Row, who: str, expected: Expected, answer: tuple[str, int], paid_off: tuple[float, float]) -> None:
    verdicts, told = answer
    low, high = paid_off
    wanted = expected.paid_off
    timely = told == 0 if wanted is None else told > 0 and low <= wanted <= high
    if verdicts != expected.verdicts or not timely:
        topics = " ".join(f"{topic.name}:{topic.partitions}" for topic in row.ask.topics)
        raise MismatchError(
            f"{row.scenario.title}: {row.ask.operation.value} {topics}: {who} answers {verdicts}, {told} ms, paid off "
            f"{low:.0f} to {high:.0f} ms after the first request, and not {expected.verdicts}, {wanted}"
        )
