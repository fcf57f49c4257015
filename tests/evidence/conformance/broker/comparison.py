"""The same requests to a real broker, which enforces its own quota, and to the project's job on the same broker.

The two receive a request at slightly different times. The comparison therefore uses the time at which the debt is paid
off: the throttle time plus the time since the first request. For the project both are exact: its decisions have the
broker's timestamps, and the throttle time is rounded up by less than 1 ms. The broker charged the first and the last
request at some time between sending and answer, so its time may be wrong by as much as these two took, and by 1 ms of
rounding.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from quota.records.decision import Decision
from quota.records.request import Mode
from tests.evidence.conformance.broker.admin import BrokerAnswer, JavaAdmin, Topic, ask_as_old_client
from tests.evidence.conformance.broker.job import DecidingJob
from tests.evidence.conformance.broker.scenarios import CREATE, Ask, Expected, Scenario
from tests.evidence.conformance.bucket.comparison import MismatchError

Pair = tuple[BrokerAnswer, Decision]
"""The answers of the broker and of the project to one request."""

_ROUNDING_MS = 1.0
_TAKES_HOLD_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Row:
    """A request, both answers, and the times when the debt is paid off by them, ms after the first request."""

    scenario: Scenario
    ask: Ask
    kafka: str
    kafka_throttle_ms: int
    kafka_paid_off: tuple[float, float]
    """The range in which the broker's time lies."""
    project: str
    project_throttle_ms: int
    project_paid_off: float


def play_all(scenarios: Iterable[Scenario], java: JavaAdmin, address: str, job: DecidingJob) -> Iterator[Row]:
    """Play scenarios one after another, and remove their quotas from the broker."""
    scenarios = list(scenarios)
    java.ask("conformance-setup", CREATE, [Topic("conformance-warm-up", 1)])
    for scenario in scenarios:
        if scenario.before:
            java.ask("conformance-setup", CREATE, scenario.before)
        java.set_quota(scenario.client_id, scenario.rate)
        job.set_quota(scenario.client_id, scenario.rate)
    time.sleep(_TAKES_HOLD_SECONDS)  # until the controller has the quotas
    try:
        for scenario in scenarios:
            yield from _rows(scenario, java, address, job)
    finally:
        for scenario in scenarios:
            java.set_quota(scenario.client_id, None)


def _rows(scenario: Scenario, java: JavaAdmin, address: str, job: DecidingJob) -> Iterator[Row]:
    """Send the requests of a scenario in time, and read the decisions afterwards."""
    client, began, changed_at = scenario.client_id, 0.0, 0
    sent: list[tuple[str, BrokerAnswer]] = []
    for ask in scenario.requests:
        time.sleep(max(0.0, began + ask.at - time.time()) if began else 0.0)
        if ask.new_rate is not None:
            java.set_quota(client, ask.new_rate)
            changed_at = job.set_quota(client, ask.new_rate)
            time.sleep(_TAKES_HOLD_SECONDS)
        request = job.send(client, scenario.mode, ask.operation, ask.topics, validate_only=ask.validate_only)
        if scenario.mode is Mode.PERMISSIVE:
            kafka = ask_as_old_client(address, client, ask.operation, ask.topics)
        else:
            kafka = java.ask(client, ask.operation, ask.topics, validate_only=ask.validate_only)
        sent.append((request, kafka))
        began = began or time.time()
    answers = [(kafka, job.decision(request)) for request, kafka in sent]
    for ask, answer in zip(scenario.requests, answers, strict=True):
        yield compare(scenario, ask, answers[0], answer, changed_at)


def compare(scenario: Scenario, ask: Ask, first: Pair, now: Pair, changed_at: int = 0) -> Row:
    """Check both answers to a request, and return them."""
    (first_kafka, first_decision), (kafka, project) = first, now
    least, most = max(0.0, kafka.sent - first_kafka.received), kafka.received - first_kafka.sent
    row = Row(
        scenario,
        ask,
        "".join("AR"[not admitted] for admitted in kafka.admitted),
        kafka.throttle_ms,
        (kafka.throttle_ms + least, kafka.throttle_ms + most),
        "".join("AR"[topic.error_code != 0] for topic in project.topics),
        project.throttle_time_ms,
        project.throttle_time_ms + project.timestamp - first_decision.timestamp,
    )
    low, high = row.kafka_paid_off
    _check(row, "Kafka", ask.expected, (row.kafka, row.kafka_throttle_ms), (low - _ROUNDING_MS, high + _ROUNDING_MS))
    expected, at = _at(ask, changed_at - first_decision.timestamp), row.project_paid_off
    _check(row, "the project", expected, (row.project, row.project_throttle_ms), (at - _ROUNDING_MS, at))
    return row


def _at(ask: Ask, changed: float) -> Expected:
    """Return the project's expected answer, given the time of the quota change."""
    expected = ask.here or ask.expected
    when = expected.paid_off
    return Expected(expected.verdicts, when(changed) if callable(when) else when)


def _check(row: Row, who: str, expected: Expected, answer: tuple[str, int], paid_off: tuple[float, float]) -> None:
    verdicts, throttle_ms = answer
    low, high = paid_off
    wanted = expected.paid_off
    timely = throttle_ms == 0 if wanted is None else throttle_ms > 0 and low <= wanted <= high
    if verdicts != expected.verdicts or not timely:
        topics = " ".join(f"{topic.name}:{topic.partitions}" for topic in row.ask.topics)
        raise MismatchError(
            f"{row.scenario.title}: {row.ask.operation.value} {topics}: {who} answers {verdicts}, {throttle_ms} ms, "
            f"paid off {low:.0f} to {high:.0f} ms after the first request, and not {expected.verdicts}, {wanted}"
        )
