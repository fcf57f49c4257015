"""Applications that change topics far above their quotas, and checks of what they leave behind."""

import random
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import wait

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from quota.kafka.admin.client import QuotaAdminClient
from quota.kafka.admin.errors import ThrottlingQuotaExceededError
from quota.kafka.admin.options import ClientOptions
from quota.kafka.clients import client_config
from quota.kafka.reading import read_topic
from quota.kafka.timing import Deadline
from quota.records.decision import read_decision
from quota.records.request import Operation
from quota.records.result import read_result
from tests.support.deployment import with_sections

CALL_SECONDS = 30.0
"""Time limit of a call, seconds."""

PREFIX = "storm-"
"""Prefix of all topic names."""

SLACK_MS = 2000
"""The longest time until a decision reaches its client, ms; until then the client may still send requests."""


class Storm:
    """Applications with several threads and a client-id each; two applications share a user."""

    def __init__(self, settings, applications, threads):
        """Prepare the applications, without sending."""
        self._settings = settings
        self._applications = applications
        self._threads = threads
        self._random = random.Random(599)
        self._lock = threading.Lock()
        self._calls = []

    def rage(self, seconds):
        """Send for `seconds`, wait for all calls to end, and check what they have done; see `check`."""
        clients = [self._client(number) for number in range(self._applications)]
        until = time.monotonic() + seconds
        threads = [
            threading.Thread(target=self._work, args=(number, clients[number % len(clients)], until))
            for number in range(self._threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait([future for call in self._calls for future in call.values()], timeout=2 * CALL_SECONDS)
        for client in clients:
            client.close(wait=False)
        return check(self._settings, self._calls)

    def _client(self, number):
        who = {"user": f"tenant-{number // 2}", "client_id": f"storm-{number}"}
        settings = with_sections(self._settings, client=who | {"api_timeout_seconds": CALL_SECONDS})
        return QuotaAdminClient(ClientOptions.from_settings(settings))

    def _work(self, number, client, until):
        """Create, grow and delete the thread's own topics, waiting for most calls."""
        rng = random.Random(self._random.random())
        made, count = [], 0
        while time.monotonic() < until:
            mutation = rng.choices(["create", "grow", "delete"], [70, 15, 15])[0] if made else "create"
            if mutation == "delete":
                call = client.delete_topics([made.pop()])
            elif mutation == "grow":
                call = client.create_partitions([NewPartitions(made[-1], rng.randint(4, 6))])
            else:
                count += 1
                topics = [
                    NewTopic(f"{PREFIX}{number}-{count}-{nth}", rng.randint(1, 3)) for nth in range(rng.randint(1, 3))
                ]
                call = client.create_topics(topics, retry_on_quota_violation=rng.random() < 0.7)
            with self._lock:
                self._calls.append(call)
            if rng.random() < 0.1:
                time.sleep(rng.random())
                continue
            done = [name for name, future in call.items() if future.exception(timeout=2 * CALL_SECONDS) is None]
            made += done if mutation == "create" else []


def check(settings, calls):
    """Return the number of topics by their outcome, and what is wrong."""
    outcomes = Counter(_outcome(future) for call in calls for future in call.values())
    decisions, results = _answers(settings)
    wrong = [*_check_results(decisions, results), *_check_topics(settings, decisions, results)]
    wrong += [*_check_futures(calls, results), *_check_waits(decisions)]
    return outcomes, [*wrong, *["a future was left hanging"] * outcomes["hanging"]]


def _answers(settings):
    """Return all decisions with their time on the topic, and all results, once each admitted topic has one."""
    deadline = Deadline(CALL_SECONDS)
    while True:
        decisions = {}
        for message in read_topic(settings.kafka.connection, settings.topics.decisions, CALL_SECONDS):
            decision = read_decision(message.value())
            decisions.setdefault(decision.decision_id, (decision, message.timestamp()[1]))
        messages = read_topic(settings.kafka.connection, settings.topics.results, CALL_SECONDS)
        results = [read_result(message.value()) for message in messages]
        admitted = {(decision.decision_id, topic.name) for decision, topic in _admitted(decisions)}
        if admitted <= _by_topic(results).keys() or deadline.has_passed:
            return decisions, results


def _check_results(decisions, results):
    """Check that each admitted topic has one result, and that no existing topic was created."""
    outcome = _by_topic(results)
    for decision_id, times in Counter(result.decision_id for result in results).items():
        if times > 1:
            yield f"{decision_id} was carried out {times} times"
    for decision, topic in _admitted(decisions):
        if (decision.decision_id, topic.name) not in outcome:
            yield f"{topic.name} was admitted by {decision.decision_id} and never carried out"
    for (_, name), topic in outcome.items():
        if topic.error == "TOPIC_ALREADY_EXISTS":
            yield f"{name} was created twice"


def _check_topics(settings, decisions, results):
    """Check that the topics of the cluster are those of the results, and that each was admitted."""
    topics = AdminClient(client_config(settings.target_connection)).list_topics(timeout=10).topics
    existing = {name: len(topic.partitions) for name, topic in topics.items() if name.startswith(PREFIX)}
    outcome = _by_topic(results)
    expected, admitted = {}, set()
    for decision, topic in _admitted(decisions):
        admitted.add(topic.name)
        done = outcome.get((decision.decision_id, topic.name))
        if done is not None and done.error_code == 0:
            after = {Operation.CREATE_TOPICS: topic.partitions, Operation.CREATE_PARTITIONS: topic.count}
            expected[topic.name] = after.get(decision.operation)
    for name in existing.keys() - admitted:
        yield f"{name} was created without being admitted"
    for name in expected.keys() | existing.keys():
        if expected.get(name) != existing.get(name):
            yield f"{name} has {existing.get(name)} partitions, not {expected.get(name)}"


def _check_futures(calls, results):
    """Check that every change reported as done was done."""
    done = {topic.name for result in results for topic in result.topics if topic.error_code == 0}
    for call in calls:
        reported = {name for name, future in call.items() if _outcome(future) == "done"}
        yield from (f"{name} was reported as done, but nothing was done" for name in reported - done)


def _check_waits(decisions):
    """Check that a throttled client sends nothing during its throttle time."""
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
            yield from (f"{client} sent at {moment}, throttled from {at} to {until}" for moment in early)
        yield from _check_retries(client, received)


def _check_retries(client, received):
    rejected = {}
    for decision, _ in sorted(received, key=lambda pair: (pair[0].timestamp, pair[0].source.offset)):
        for topic in decision.topics:
            before = rejected.pop((decision.operation, topic.name), None)
            if before is not None and decision.timestamp - before.timestamp < before.throttle_time_ms:
                yield f"{client} retried {topic.name} before its throttle time was over"
            if topic.error_code:
                rejected[decision.operation, topic.name] = decision


def _admitted(decisions):
    """Yield admitted topics with their decisions, in the order in which they are applied."""
    in_order = sorted((decision for decision, _ in decisions.values()), key=lambda decision: decision.source.offset)
    for decision in sorted(in_order, key=lambda decision: decision.source.partition):
        for topic in decision.topics:
            if not topic.error_code:
                yield decision, topic


def _by_topic(results):
    return {(result.decision_id, topic.name): topic for result in results for topic in result.topics}


def _outcome(future):
    if not future.done():
        return "hanging"
    match future.exception():
        case None:
            return "done"
        case ThrottlingQuotaExceededError():
            return "rejected"
        case KafkaException() as error:
            return error.args[0].name()
