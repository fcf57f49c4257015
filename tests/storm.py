"""Applications that change topics far above their quotas, and what must hold of it afterwards."""

import random
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from quota.decision import Decision
from quota.kafka.admin import QuotaAdminClient
from quota.kafka.client import client_config
from quota.kafka.client_options import ClientOptions
from quota.kafka.requests import AnswerReader
from quota.kafka.throttling import ThrottlingQuotaExceededError
from quota.request import Operation
from quota.result import MutationResult

CALL_SECONDS = 30.0
"""The time limit of a call."""

SLACK_MS = 1000
"""How late a decision may reach its client: what was sent until then was under way."""


@dataclass
class Report:
    """What was found; `wrong` is empty where all of it holds."""

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
        share = {percent: late[min(len(late) - 1, len(late) * percent // 100)] for percent in (50, 99)}
        outcomes = ", ".join(f"{count} {name}" for name, count in sorted(self.outcomes.items()))
        return (
            f"{self.calls} calls; topics of calls: {outcomes}; {self.topics} topics stand in the end; "
            f"{self.results} results, {self.found_done} topics found done; {self.waits} waits, "
            f"longer than told by p50 {share[50]} ms, p99 {share[99]} ms, max {late[-1]} ms"
        )


class Storm:
    """Applications with several threads each, every application a user and client-id of its own."""

    def __init__(self, settings, applications=10, threads=40, seed=599):
        """Prepare; nothing is sent yet. `settings.client.applied_by` says who carries out."""
        self._settings = settings
        self._names = [f"storm-{number}" for number in range(applications)]
        self._threads = threads
        self._random = random.Random(seed)
        self._calls = []
        self._lock = threading.Lock()

    @property
    def users(self):
        """The users of the applications: two share one each."""
        return sorted({self._user(number) for number in range(len(self._names))})

    def rage(self, seconds):
        """Send for so long, wait until all calls have ended, and look at what came of it."""
        clients = [self._client(number) for number in range(len(self._names))]
        until = time.monotonic() + seconds
        threads = [
            threading.Thread(target=self._application, args=(number, clients, until, self._random.random()))
            for number in range(self._threads)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        futures = [future for call in self._calls for future in call.values()]
        _, hanging = wait(futures, timeout=2 * CALL_SECONDS)
        for client in clients:
            client.close(wait=False)
        return self._examine(len(hanging))

    def _user(self, number):
        return f"tenant-{number // 2}"

    def _client(self, number):
        client = self._settings.client.model_copy(
            update={
                "user": self._user(number),
                "client_id": self._names[number],
                "api_timeout_ms": int(CALL_SECONDS * 1000),
            }
        )
        return QuotaAdminClient(ClientOptions.from_settings(self._settings.model_copy(update={"client": client})))

    def _application(self, number, clients, until, seed):
        """Create, grow and delete topics that nobody else knows, waiting for some calls and not for others."""
        rng = random.Random(seed)
        client = clients[number % len(clients)]
        made, count = [], 0
        while time.monotonic() < until:
            chance = rng.random()
            if chance < 0.15 and made:
                call = client.delete_topics([made.pop()])
            elif chance < 0.3 and made:
                name = made[-1]
                call = client.create_partitions([NewPartitions(name, rng.randint(4, 6))])
            else:
                count += 1
                names = [f"storm.{number}.{count}.{each}" for each in range(rng.randint(1, 3))]
                call = client.create_topics(
                    [NewTopic(name, rng.randint(1, 3)) for name in names], retry_on_quota_violation=rng.random() < 0.7
                )
            with self._lock:
                self._calls.append(call)
            if rng.random() < 0.9:
                for name, future in call.items():
                    if future.exception(timeout=2 * CALL_SECONDS) is None and chance >= 0.3:
                        made.append(name)
            else:
                time.sleep(rng.random())

    def _examine(self, hanging):
        report = Report(calls=len(self._calls))
        if hanging:
            report.wrong.append(f"{hanging} futures were left hanging")
        for call in self._calls:
            for future in call.values():
                report.outcomes[_outcome(future)] += 1
        decisions, results = self._answers()
        self._examine_topics(report, decisions, results)
        self._examine_waits(report, decisions)
        return report

    def _answers(self):
        """All decisions with the time they reached their topic, and all results, once nothing more comes."""
        reader = AnswerReader(self._settings, from_beginning=True, results=True)
        decisions, results, quiet = {}, [], 0
        while quiet < 3:
            heard = list(reader.read(1.0))
            quiet = 0 if heard else quiet + 1
            for each in heard:
                match each.answer:
                    case Decision(decision_id=decision_id):
                        decisions.setdefault(decision_id, (each.answer, each.at))
                    case MutationResult():
                        results.append(each.answer)
        reader.close()
        return decisions, results

    def _examine_topics(self, report, decisions, results):
        admin = AdminClient(client_config(self._settings.kafka.target))
        stand = {
            name: len(topic.partitions)
            for name, topic in admin.list_topics(timeout=10).topics.items()
            if name.startswith("storm.")
        }
        report.topics, report.results = len(stand), len(results)
        for decision_id, times in Counter(result.decision_id for result in results).items():
            if times > 1:
                report.wrong.append(f"{decision_id} was carried out {times} times")
        outcome = {(result.decision_id, topic.name): topic for result in results for topic in result.topics}
        expected, admitted = {}, set()
        for decision, _ in sorted(decisions.values(), key=lambda pair: (pair[0].source.partition, pair[0].source.offset)):
            for topic in decision.topics:
                if topic.error_code:
                    continue
                if decision.operation is Operation.CREATE_TOPICS:
                    admitted.add(topic.name)
                done = outcome.get((decision.decision_id, topic.name))
                if done is None:
                    report.wrong.append(f"{topic.name} was admitted by {decision.decision_id} and never carried out")
                elif done.error == "TOPIC_ALREADY_EXISTS":
                    report.wrong.append(f"{topic.name} was created twice")
                elif done.error_code == 0:
                    report.found_done += done.found_done
                    expected[topic.name] = _partitions_after(decision.operation, topic)
        for name in stand.keys() - admitted:
            report.wrong.append(f"{name} was created without being admitted")
        expected = {name: count for name, count in expected.items() if count is not None}
        for name in expected.keys() | stand.keys():
            if expected.get(name) != stand.get(name):
                report.wrong.append(f"{name} has {stand.get(name)} partitions, not {expected.get(name)}")
        for call in self._calls:
            for name, future in call.items():
                if _outcome(future) == "done" and not any(key[1] == name for key in outcome):
                    report.wrong.append(f"{name} is said to be done, and nothing was done")

    def _examine_waits(self, report, decisions):
        """Who was told to wait sends nothing before that time is over; how much longer it waits is noted."""
        by_client = defaultdict(list)
        for decision, at in decisions.values():
            by_client[decision.client_id].append((decision, at))
        for client, heard in by_client.items():
            told = sorted((at, at + decision.throttle_time_ms) for decision, at in heard if decision.throttle_time_ms)
            sent = sorted(decision.timestamp for decision, _ in heard)
            for at, until in told:
                early = [moment for moment in sent if at + SLACK_MS < moment < until]
                report.wrong += [f"{client} sent at {moment}, throttled from {at} to {until}" for moment in early]
            self._examine_retries(report, client, heard, told)

    def _examine_retries(self, report, client, heard, told):
        refused = {}
        for decision, _ in sorted(heard, key=lambda pair: (pair[0].timestamp, pair[0].source.offset)):
            for topic in decision.topics:
                before = refused.pop((decision.operation, topic.name), None)
                if before is not None:
                    report.waits += 1
                    if decision.timestamp - before.timestamp < before.throttle_time_ms:
                        report.wrong.append(f"{client} asked for {topic.name} again before its time")
                    muted_until = max(until for at, until in told if at <= decision.timestamp)
                    report.overshoot_ms.append(decision.timestamp - muted_until)
                if topic.error_code:
                    refused[decision.operation, topic.name] = decision


def _partitions_after(operation, topic):
    match operation:
        case Operation.CREATE_TOPICS:
            return topic.partitions
        case Operation.CREATE_PARTITIONS:
            return topic.count
        case Operation.DELETE_TOPICS:
            return None


def _outcome(future: Future):
    if not future.done():
        return "hanging"
    match future.exception():
        case None:
            return "done"
        case ThrottlingQuotaExceededError():
            return "refused"
        case KafkaException() as error:
            return error.args[0].name()
