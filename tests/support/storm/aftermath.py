"""Checks of the records after applications have changed topics through decisions and an applier."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from quota.kafka.admin.errors import ThrottlingQuotaExceededError
from quota.kafka.clients import client_config
from quota.kafka.requests import AnswerReader
from quota.records.decision import Decision
from quota.records.request import Operation
from quota.records.result import MutationResult

SLACK_MS = 1000
"""The longest time until a decision reaches its client, ms; until then the client may still send requests."""


@dataclass
class Report:
    """The figures; `wrong` is empty if all checks pass."""

    calls: int = 0
    outcomes: Counter = field(default_factory=Counter)
    topics: int = 0
    results: int = 0
    found_done: int = 0
    waits: int = 0
    overshoot_ms: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __str__(self):
        late = sorted(self.overshoot_ms) or [0]
        p50, p99 = (late[min(len(late) - 1, len(late) * percent // 100)] for percent in (50, 99))
        outcomes = ", ".join(f"{count} {name}" for name, count in sorted(self.outcomes.items()))
        return (
            f"{self.calls} calls; outcomes of their topics: {outcomes}; {self.topics} topics exist at the end; "
            f"{self.results} results, {self.found_done} topics found done already; {self.waits} waits, "
            f"longer than the throttle time by p50 {p50} ms, p99 {p99} ms, max {late[-1]} ms"
        )


def check(settings, calls, prefix):
    """Check the outcome of calls, and return the report."""
    report = Report(calls=len(calls))
    for call in calls:
        report.outcomes.update(_outcome(future) for future in call.values())
    if report.outcomes["hanging"]:
        report.wrong.append(f"{report.outcomes['hanging']} futures were left hanging")
    decisions, results = _answers(settings)
    _check_results(report, decisions, results)
    _check_topics(report, settings, prefix, decisions, results)
    _check_futures(report, calls, results)
    _check_waits(report, decisions)
    return report


def _answers(settings):
    """Return all decisions with their time on the topic, and all results, once no more arrive."""
    reader = AnswerReader(settings, from_beginning=True, results=True)
    decisions, results, quiet = {}, [], 0
    while quiet < 3:
        read = list(reader.read(1.0))
        quiet = 0 if read else quiet + 1
        for each in read:
            match each.answer:
                case Decision(decision_id=decision_id):
                    decisions.setdefault(decision_id, (each.answer, each.at))
                case MutationResult():
                    results.append(each.answer)
    reader.close()
    return decisions, results


def _check_results(report, decisions, results):
    """Check that each admitted topic has one result, and that no existing topic was created."""
    report.results = len(results)
    outcome = _by_topic(results)
    for decision_id, times in Counter(result.decision_id for result in results).items():
        if times > 1:
            report.wrong.append(f"{decision_id} was carried out {times} times")
    for decision, topic in _admitted(decisions):
        if (decision.decision_id, topic.name) not in outcome:
            report.wrong.append(f"{topic.name} was admitted by {decision.decision_id} and never carried out")
    for (_, name), topic in outcome.items():
        report.found_done += topic.found_done
        if topic.error == "TOPIC_ALREADY_EXISTS":
            report.wrong.append(f"{name} was created twice")


def _check_topics(report, settings, prefix, decisions, results):
    """Check that the topics of the cluster are those of the results, and that each was admitted."""
    topics = AdminClient(client_config(settings.target_connection)).list_topics(timeout=10).topics
    existing = {name: len(topic.partitions) for name, topic in topics.items() if name.startswith(prefix)}
    report.topics = len(existing)
    outcome = _by_topic(results)
    expected, admitted = {}, set()
    for decision, topic in _admitted(decisions):
        admitted.add(topic.name)
        done = outcome.get((decision.decision_id, topic.name))
        if done is not None and done.error_code == 0:
            expected[topic.name] = _partitions_after(decision.operation, topic)
    for name in existing.keys() - admitted:
        report.wrong.append(f"{name} was created without being admitted")
    for name in expected.keys() | existing.keys():
        if expected.get(name) != existing.get(name):
            report.wrong.append(f"{name} has {existing.get(name)} partitions, not {expected.get(name)}")


def _check_futures(report, calls, results):
    """Check that every change reported as done was done."""
    done = {topic.name for result in results for topic in result.topics if topic.error_code == 0}
    for call in calls:
        reported = {name for name, future in call.items() if _outcome(future) == "done"}
        report.wrong += [f"{name} was reported as done, but nothing was done" for name in reported - done]


def _check_waits(report, decisions):
    """Check that a throttled client sends nothing during its throttle time, and note how much longer it waits."""
    by_client = defaultdict(list)
    for decision, at in decisions.values():
        by_client[decision.client_id].append((decision, at))
    for client, received in by_client.items():
        throttles = sorted(
            (at, at + decision.throttle_time_ms) for decision, at in received if decision.throttle_time_ms
        )
        sent = sorted(decision.timestamp for decision, _ in received)
        for at, until in throttles:
            early = [moment for moment in sent if at + SLACK_MS < moment < until]
            report.wrong += [f"{client} sent at {moment}, throttled from {at} to {until}" for moment in early]
        _check_retries(report, client, received, throttles)


def _check_retries(report, client, received, throttles):
    refused = {}
    for decision, _ in sorted(received, key=lambda pair: (pair[0].timestamp, pair[0].source.offset)):
        for topic in decision.topics:
            before = refused.pop((decision.operation, topic.name), None)
            if before is not None:
                report.waits += 1
                if decision.timestamp - before.timestamp < before.throttle_time_ms:
                    report.wrong.append(f"{client} retried {topic.name} before its throttle time was over")
                muted_until = max(until for at, until in throttles if at <= decision.timestamp)
                report.overshoot_ms.append(decision.timestamp - muted_until)
            if topic.error_code:
                refused[decision.operation, topic.name] = decision


def _admitted(decisions):
    """Yield admitted topics with their decisions, in the order in which they are applied."""
    in_order = sorted((decision for decision, _ in decisions.values()), key=lambda each: each.source.offset)
    for decision in sorted(in_order, key=lambda each: each.source.partition):
        for topic in decision.topics:
            if not topic.error_code:
                yield decision, topic


def _by_topic(results):
    return {(result.decision_id, topic.name): topic for result in results for topic in result.topics}


def _partitions_after(operation, topic):
    match operation:
        case Operation.CREATE_TOPICS:
            return topic.partitions
        case Operation.CREATE_PARTITIONS:
            return topic.count
        case Operation.DELETE_TOPICS:
            return None


def _outcome(future):
    if not future.done():
        return "hanging"
    match future.exception():
        case None:
            return "done"
        case ThrottlingQuotaExceededError():
            return "refused"
        case KafkaException() as error:
            return error.args[0].name()
