"""A client's calls, step by step: what is requested when, and what becomes of each topic.

A topic has a name of one letter, and a call starts at 0 s with a time limit of 60 s.
"""

import asyncio
from collections import defaultdict

import msgspec
import pytest
from confluent_kafka import KafkaError
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quota.admission.decide import decide
from quota.algorithms.token_bucket import TokenBucket
from quota.kafka.admin.calls import AppliedBy, Call, CallOptions, Calls, TopicFuture
from quota.kafka.admin.errors import ThrottlingQuotaExceededError
from quota.kafka.decisions import Decisions
from quota.kafka.requests import ReceivedAnswer, rejected_id
from quota.records.dead_letter import DeadLetter
from quota.records.decision import ErrorCode, Outcome
from quota.records.entity import QuotaEntity, Tags
from quota.records.fields import BEGINNING
from quota.records.quota import Limit, Quota, Window
from quota.records.record import Source
from quota.records.request import STRICT_SINCE, Mode, Operation, TopicMutation
from quota.records.result import MutationResult, TopicResult
from quota.settings.sections import TopicSettings
from quota.timeline.resolution import UNLIMITED, Resolution, ResolvedRequest
from tests.support.factories import record
from tests.support.virtual_time import VirtualLoop

CLIENT, APPLIER = AppliedBy.CLIENT, AppliedBy.APPLIER
THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
DONE, NO_DECISION, NO_RESULT, CLOSED = "done", "no decision", "no result", "closed"
EXISTS = "TOPIC_ALREADY_EXISTS"
"""Outcomes of a topic; a refused one has the outcome of its remaining throttle time [ms]."""


def decision(request, refused="", throttle_ms=0, **fields):
    """Return the decision on a request, which refuses some of its topics."""
    _, [admitted] = decide(None, [ResolvedRequest(record(None), request, UNLIMITED)], TokenBucket(Window()))
    topics = [
        msgspec.structs.replace(topic, error_code=THROTTLED.value, error=THROTTLED.name, error_message="Refused.")
        if topic.name in refused
        else topic
        for topic in admitted.topics
    ]
    count = sum(topic.error_code != 0 for topic in topics)
    outcome = Outcome.ADMITTED if not count else Outcome.PARTIAL if count < len(topics) else Outcome.REJECTED
    fields = {"retry_at": admitted.timestamp + throttle_ms, "throttle_time_ms": throttle_ms} | fields
    return msgspec.structs.replace(admitted, topics=topics, outcome=outcome, **fields)


def result(request, *names, failed="", **fields):
    """Return an applier's result for topics of a request."""
    return MutationResult(
        decision_id="mutation-requests-0-0",
        request_id=request.request_id,
        user=fields.get("user", request.user),
        client_id=fields.get("client_id", request.client_id),
        operation=request.operation,
        validate_only=request.validate_only,
        topics=topic_results(names, failed),
        timestamp=0,
        source=Source("mutation-decisions", 0, 0),
    )


def topic_results(names, failed=""):
    return [TopicResult(name, 36, EXISTS, "exists") if name in failed else TopicResult(name) for name in names]


def outcome_of(error):
    if error is None:
        return DONE
    if isinstance(error, ThrottlingQuotaExceededError):
        return error.throttle_time_ms
    name, message = error.args[0].name(), error.args[0].str()
    if name == "_TIMED_OUT":
        return NO_DECISION if message.startswith("no decision on topic") else NO_RESULT
    return CLOSED if name == "_DESTROY" else name


class Client:
    """The calls of a client, whose requests and tasks are recorded."""

    def __init__(self, loop, applied_by=CLIENT, *, finishes=False):
        self.loop, self.applied_by = loop, applied_by
        self.finishes = finishes  # whether a mutation is carried out as soon as it is admitted
        self.sent, self.tasks, self.begun, self.recorded, self.undelivered = [], [], [], [], {}
        self.running = []
        self.outcomes = defaultdict(dict)
        self.calls = Calls(
            "alice", "app", applied_by, carry_out=self.carry_out, record=self.recorded.append, servers="k"
        )
        self.decisions = Decisions(self, None, TopicSettings(), "me-", self.calls.on_decision, self.calls.on_result)

    def send(self, request, on_delivery):
        self.sent.append(request)
        self.undelivered[request.request_id] = on_delivery

    async def carry_out(self, tasks, until):
        self.tasks += tasks
        if self.finishes:
            return topic_results(task.name for task in tasks)
        future = self.loop.create_future()
        self.begun.append(([task.name for task in tasks], until, future))
        return await future

    @property
    def requested(self):
        """The topics of each request."""
        return ["".join(topic.name for topic in request.topics) for request in self.sent]

    @property
    def carried(self):
        return "".join(task.name for task in self.tasks)

    def ask(self, names, limit=60.0, operation=Operation.CREATE_TOPICS, **options):
        """Begin a call, which requests topics of one partition each."""
        return self.ask_for([TopicMutation(name, 1) for name in names], limit, operation, **options)

    def ask_for(self, topics, limit=60.0, operation=Operation.CREATE_TOPICS, **options):
        futures = {topic.name: TopicFuture() for topic in topics}
        call = Call(CallOptions(operation, **options), dict(futures), self.loop.now + limit)
        for name, future in futures.items():
            future.add_done_callback(lambda done, name=name: self.settled(call, name, done))

        async def find():
            return topics

        self.begin(call)
        self.running.append(self.loop.create_task(self.calls.run(call, find(), self.decisions)))
        self.loop.settle()
        return call

    def begin(self, call):
        """Take note of a call before its first request."""

    def settled(self, call, name, future):
        self.outcomes[call][name] = outcome_of(future.exception())

    def receive(self, refused="", throttle_ms=0, of=-1, **fields):
        """Receive the decision on a request, by default the last one."""
        self.get(decision(self.sent[of], refused, throttle_ms, **fields))

    def receive_result(self, names, failed="", of=-1, **fields):
        """Receive an applier's result for topics of a request, by default the last one."""
        self.get(result(self.sent[of], *names, failed=failed, **fields))

    def reject(self, of=-1, error="topics: too many"):
        """Receive the dead letter of a request."""
        value = msgspec.json.encode(self.sent[of]).decode()
        self.get(DeadLetter(error=error, value=value, timestamp=1, source=Source("mutation-requests", 0, 0)))

    def lose(self, of=-1):
        """Receive the producer's error of a request that may have been written."""
        self.undelivered[self.sent[of].request_id](KafkaError(KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND), None)
        self.loop.settle()

    def get(self, answer):
        self.loop.call_soon(self.decisions.receive, ReceivedAnswer(answer, 1))
        self.loop.settle()

    def finish(self, failed="", of=-1):
        """Carry the tasks out that the client has begun, by default those begun last."""
        names, _, future = self.begun[of]
        if not future.done():
            future.set_result(topic_results(names, failed))
        self.loop.settle()

    def finish_all(self, names):
        """Have topics of the last request carried out, by whom it may be."""
        if self.applied_by is APPLIER:
            self.receive_result(names)
        else:
            self.finish()

    def wait_until(self, moment):
        self.loop.wait_until(moment)

    def close(self):
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.settle()

    @property
    def remembered(self):
        """All that it remembers of requests and calls: a leak is visible only here."""
        return [*self.decisions._pending, *self.calls._applying, *asyncio.all_tasks(self.loop)]  # noqa: SLF001


@pytest.fixture
def loop():
    loop = VirtualLoop()
    yield loop
    loop.end()


@pytest.fixture
def client(loop):
    """A client that carries out mutations itself, when the test says so."""
    return Client(loop)


@pytest.fixture
def quick(loop):
    """A client that carries out mutations itself, at once."""
    return Client(loop, finishes=True)


@pytest.fixture
def applied(loop):
    """A client whose mutations an applier carries out."""
    return Client(loop, APPLIER)


@pytest.fixture(params=AppliedBy)
def either(request, loop):
    return Client(loop, request.param)


def muted(client, seconds):
    """Throttle a client at 0 s."""
    client.ask("z", retry_on_quota_violation=False)
    client.receive(refused="z", throttle_ms=seconds * 1000)
    client.sent.clear()


# Requests


@pytest.mark.parametrize("validate_only", [True, False])
@pytest.mark.parametrize("operation", Operation)
def test_a_call_is_one_request_for_all_its_topics_in_their_order(either, operation, validate_only):
    """It has the sender and all known fields of the topics, in a version with throttling."""
    topics = [TopicMutation("c", 2, replication_factor=3, configs={"retention.ms": "1"}), TopicMutation("a", 1)]
    either.ask_for(topics, operation=operation, validate_only=validate_only)
    [request] = either.sent
    assert (request.user, request.client_id, request.topics) == ("alice", "app", topics)
    assert (request.operation, request.validate_only) == (operation, validate_only)
    assert (request.api_version, request.mode) == (STRICT_SINCE[operation], Mode.STRICT)
    assert (request.request_throttle_ms, request.purgatory_ms) == (0, 0)
    assert request.apply is (either.applied_by is APPLIER)


def test_ids_of_requests_begin_with_the_clients_own_prefix_and_are_never_used_again(client):
    for round_ in range(5):
        client.ask("ab")
        client.receive(refused="b", throttle_ms=1000)
        client.wait_until(round_ + 1.0)
    ids = {request.request_id for request in client.sent}
    assert len(ids) == len(client.sent) == 10
    assert all(request_id.startswith("me-") for request_id in ids)


def test_each_request_of_a_call_expires_with_the_call(client, monkeypatch):
    monkeypatch.setattr("quota.kafka.decisions.now_ms", lambda: round(client.loop.now * 1000))
    client.wait_until(5)
    client.ask("a", limit=60)
    client.receive(refused="a", throttle_ms=20_000)
    client.wait_until(25)
    assert [request.expires_at for request in client.sent] == [65_000, 65_000]


def test_a_future_has_the_last_decision_on_its_topic(client):
    call = client.ask("ab")
    futures = dict(call.pending)
    client.receive(refused="b", decision_id="mutation-requests-0-7")
    client.receive(decision_id="mutation-requests-0-8")
    assert {name: future.decision_id for name, future in futures.items()} == {
        "a": "mutation-requests-0-7",
        "b": "mutation-requests-0-8",
    }


def test_topics_whose_mutations_cannot_be_found_fail_with_the_reason(client):
    async def find():
        raise KeyError("no broker")

    future = TopicFuture()
    call = Call(CallOptions(Operation.DELETE_TOPICS), {"a": future}, 60.0)
    client.loop.run_until_complete(client.calls.run(call, find(), client.decisions))
    assert isinstance(future.exception(0), KeyError)


# What is admitted


def test_a_client_that_carries_out_mutations_itself_begins_at_once_and_reports_completion(client):
    call = client.ask("ab", validate_only=True)
    assert client.begun == []
    client.receive(throttle_ms=5000)  # as a permissive decision: it does not delay what is admitted
    assert [(names, until) for names, until, _ in client.begun] == [(["a", "b"], 60.0)]
    assert [(task.operation, task.validate_only, task.maybe_done) for task in client.tasks] == [
        (Operation.CREATE_TOPICS, True, False)
    ] * 2
    assert client.outcomes[call] == {}
    client.finish(failed="b")
    assert client.outcomes[call] == {"a": DONE, "b": EXISTS}


def test_a_mutation_of_an_applier_is_complete_at_its_result(applied):
    """The partitions of a topic that was changed are remembered: brokers may lag behind."""
    call = applied.ask("ab")
    applied.receive()
    assert applied.outcomes[call] == {}
    applied.receive_result("ab", failed="b")
    assert applied.outcomes[call] == {"a": DONE, "b": EXISTS}
    assert [task.name for task in applied.recorded] == ["a"]
    assert applied.carried == ""


def test_admitted_topics_do_not_wait_for_refused_ones(either):
    call = either.ask("abc")
    either.receive(refused="b", throttle_ms=5000)
    either.finish_all("ac")
    assert either.outcomes[call] == {"a": DONE, "c": DONE}
    assert either.requested == ["abc"]


# What is refused


@pytest.mark.parametrize(
    ("decisions", "requested"),
    [
        pytest.param([(0, "ac", 5)], [(0, "abc"), (5, "ac")], id="only refused topics, after the throttle time"),
        pytest.param([(2, "a", 5)], [(0, "abc"), (7, "a")], id="the throttle time starts with the decision"),
        pytest.param([(0, "bc", 5), (5, "c", 10)], [(0, "abc"), (5, "bc"), (15, "c")], id="refused again"),
        pytest.param([(0, "b", 0)], [(0, "abc"), (0, "b")], id="without a throttle time at once"),
    ],
)
def test_refused_topics_are_requested_again(quick, decisions, requested):
    """The decisions are (received at [s], refused topics, throttle time [s])."""
    call = quick.ask("abc")
    seen = [(0, "abc")]
    for moment, refused, seconds in decisions:
        quick.wait_until(moment)
        quick.receive(refused, seconds * 1000)
        if seconds:
            quick.wait_until(moment + seconds - 0.001)
            assert len(quick.sent) == len(seen)
            quick.wait_until(moment + seconds)
        seen.append((moment + seconds, quick.requested[-1]))
    assert seen == requested
    quick.receive()
    assert quick.outcomes[call] == {"a": DONE, "b": DONE, "c": DONE}


def test_without_retries_refused_topics_fail_at_once_with_the_throttle_time(quick):
    call = quick.ask("abc", retry_on_quota_violation=False)
    quick.receive(refused="ac", throttle_ms=5000)
    assert quick.outcomes[call] == {"a": 5000, "b": DONE, "c": 5000}
    quick.wait_until(100)
    assert quick.requested == ["abc"]


def test_a_refused_topic_fails_with_the_decision_that_refused_it_last(client):
    call = client.ask("a")
    future = call.pending["a"]
    client.receive(refused="a", throttle_ms=5000, decision_id="mutation-requests-0-7", retry_at=5000)
    client.wait_until(5)
    client.receive(refused="a", throttle_ms=70_000, decision_id="mutation-requests-0-8", retry_at=75_000)
    client.wait_until(60)
    error = future.exception(0)
    assert (error.decision_id, error.retry_at, error.retryable) == ("mutation-requests-0-8", 75_000, True)


@pytest.mark.parametrize("now", [0.3, 1.1, 7.7, 100.1, 12_345.678])
@pytest.mark.parametrize("throttle_ms", [1, 100, 1001, 12_000])
def test_the_reported_throttle_time_equals_that_of_the_decision_to_the_millisecond(client, now, throttle_ms):
    client.wait_until(now)
    call = client.ask("a", retry_on_quota_violation=False)
    client.receive(refused="a", throttle_ms=throttle_ms)
    assert client.outcomes[call] == {"a": throttle_ms}


def test_the_worked_example_of_kip_599(quick):
    """Rate 5, burst 500: of eight topics of 80 seven are admitted, 500 - 560 = -60, and the last one 12 s later."""
    limit, strategy, bucket = Limit(Quota(5.0), BEGINNING), TokenBucket(Window(num=100)), None

    def answer():
        nonlocal bucket
        resolution = Resolution(Tags("alice", ""), limit, QuotaEntity("alice"))
        requested = ResolvedRequest(record(None, timestamp=round(quick.loop.now * 1000)), quick.sent[-1], resolution)
        bucket, [decided] = decide(bucket, [requested], strategy)
        quick.get(decided)

    call = quick.ask_for([TopicMutation(name, 80) for name in "abcdefgh"])
    answer()
    assert "".join(quick.outcomes[call]) == "abcdefg"
    quick.wait_until(11.999)
    assert quick.requested == ["abcdefgh"]
    quick.wait_until(12)
    assert quick.requested == ["abcdefgh", "h"]
    answer()
    assert quick.outcomes[call]["h"] == DONE


# The time limit


def refused_at_10_s(client):
    client.wait_until(10)
    client.receive(refused="ab", throttle_ms=90_000)


def admitted_after_a_refusal(client):
    client.receive(refused="ab", throttle_ms=5000)
    client.wait_until(5)
    client.receive()


def not_decided_again(client):
    client.receive(refused="ab", throttle_ms=5000)


def throttled_until_the_limit(client):
    client.receive(refused="ab", throttle_ms=60_000)


def each_its_own(client):
    client.receive(refused="b", throttle_ms=70_000)


@pytest.mark.parametrize(
    ("events", "outcomes"),
    [
        (lambda _: None, {"a": NO_DECISION, "b": NO_DECISION}),
        (Client.receive, {"a": NO_RESULT, "b": NO_RESULT}),
        (refused_at_10_s, {"a": 40_000, "b": 40_000}),
        (admitted_after_a_refusal, {"a": NO_RESULT, "b": NO_RESULT}),
        (not_decided_again, {"a": 0, "b": 0}),
        (throttled_until_the_limit, {"a": 0, "b": 0}),
        (each_its_own, {"a": NO_RESULT, "b": 10_000}),
    ],
)
def test_at_the_time_limit_each_topic_fails_for_its_own_reason(either, events, outcomes):
    """A refused one fails with the remaining throttle time. Nothing is carried out without a decision."""
    call = either.ask("ab")
    events(either)
    either.wait_until(59.999)
    assert either.outcomes[call] == {}
    requested = list(either.requested)
    either.wait_until(200)
    assert (either.outcomes[call], either.requested) == (outcomes, requested)
    assert either.carried in {"", "".join(name for name in outcomes if outcomes[name] == NO_RESULT)}


def test_topics_held_back_by_a_throttle_fail_with_the_remaining_throttle_time(client):
    """The job does respond: muted until 90 s, and at 70 s 20 s remain. No decision refused them."""
    muted(client, 90)
    client.wait_until(10)
    calls = [client.ask("a", limit=60), client.ask("b", limit=60)]
    futures = [future for call in calls for future in call.pending.values()]
    client.wait_until(70)
    assert [client.outcomes[call] for call in calls] == [{"a": 20_000}, {"b": 20_000}]
    assert [future.exception(0).decision_id for future in futures] == [None, None]
    client.wait_until(200)
    assert client.requested == []


@pytest.mark.parametrize(("throttle_ms", "remaining_ms"), [(90_000, 25_000), (59_990, 0)])
def test_nothing_is_requested_after_the_time_limit_even_if_it_is_seen_late(client, throttle_ms, remaining_ms):
    """The remaining throttle time starts when the failure is reported."""
    call = client.ask("a", limit=60)
    client.receive(refused="a", throttle_ms=throttle_ms)
    client.loop.oversleep(65)
    assert client.outcomes[call] == {"a": remaining_ms}
    assert client.requested == ["a"]


def test_a_call_whose_time_limit_has_passed_is_not_requested(client):
    call = client.ask("a", limit=-0.5)
    assert (client.requested, client.outcomes[call]) == ([], {"a": NO_DECISION})


def test_a_time_limit_ends_its_own_call_alone(quick):
    short, long = quick.ask("a", limit=5), quick.ask("a", limit=60)
    quick.wait_until(5)
    quick.receive(of=1)
    assert quick.outcomes == {short: {"a": NO_DECISION}, long: {"a": DONE}}


def test_answers_after_the_time_limit_change_nothing(either):
    undecided, admitted = either.ask("a", limit=5), either.ask("b", limit=5)
    either.receive(of=1)
    either.wait_until(5)
    failures = {undecided: {"a": NO_DECISION}, admitted: {"b": NO_RESULT}}
    assert either.outcomes == failures
    either.receive(of=0)
    either.receive_result("a", of=0)
    either.receive_result("b", of=1)
    either.wait_until(100)
    assert either.outcomes == failures
    assert (either.requested, either.carried) == (["a", "b"], "b" if either.applied_by is CLIENT else "")


# Silence after a throttle


def by_a_permissive_decision(client):
    client.ask("z")
    client.receive(throttle_ms=5000)


def by_a_partial_decision(client):
    client.ask("yz", retry_on_quota_violation=False)
    client.receive(refused="z", throttle_ms=5000)


def by_a_refusal(client):
    client.ask("z", retry_on_quota_violation=False)
    client.receive(refused="z", throttle_ms=5000)


def by_a_decision_on_what_could_not_be_sent(client):
    """It was sent after all."""
    client.ask("z")
    client.lose()
    client.receive(throttle_ms=5000)


def by_a_decision_on_a_failed_call(client):
    client.ask("z", limit=0.25)
    client.wait_until(0.25)
    client.receive(throttle_ms=4750)


def by_the_longer_of_two(client):
    client.ask("y")
    client.ask("z")
    client.receive(of=0, throttle_ms=5000)
    client.receive(of=1, throttle_ms=2000)


def by_a_decision_before_one_without_a_throttle(client):
    client.ask("y")
    client.ask("z")
    client.receive(of=1, throttle_ms=5000)
    client.receive(of=0)


@pytest.mark.parametrize(
    "throttled",
    [
        by_a_permissive_decision,
        by_a_partial_decision,
        by_a_refusal,
        by_a_decision_on_what_could_not_be_sent,
        by_a_decision_on_a_failed_call,
        by_the_longer_of_two,
        by_a_decision_before_one_without_a_throttle,
    ],
)
def test_nothing_is_sent_during_a_throttle(client, throttled):
    """Whatever waits is sent then, in its order."""
    throttled(client)
    client.sent.clear()
    client.ask("a")
    client.wait_until(2)
    client.ask("b")
    client.ask("cd")
    client.wait_until(4.999)
    assert client.requested == []
    client.wait_until(5)
    assert client.requested == ["a", "b", "cd"]
    client.wait_until(50)
    assert client.requested == ["a", "b", "cd"]


def test_a_throttle_applies_to_retries_of_another_call(client):
    """One is refused for 5 s, and at 3 s the other is throttled until 9 s."""
    client.ask("a")
    client.ask("b")
    client.receive(of=0, refused="a", throttle_ms=5000)
    client.wait_until(3)
    client.receive(of=1, throttle_ms=6000)
    client.wait_until(8.999)
    assert client.requested == ["a", "b"]
    client.wait_until(9)
    assert client.requested == ["a", "b", "a"]


# Copies, strangers, and results before decisions


def test_a_duplicated_decision_counts_once(either):
    """It is received at 0 s and again at 4 s, as after a crash of the job: its 5 s are over at 5 s."""
    call = either.ask("ab")
    for moment in (0, 4):
        either.wait_until(moment)
        either.receive(of=0, refused="b", throttle_ms=5000)
    assert either.carried == ("a" if either.applied_by is CLIENT else "")
    either.wait_until(5)
    assert either.requested == ["ab", "b"]
    either.receive(of=0, refused="b", throttle_ms=5000)
    either.ask("c")
    assert either.requested == ["ab", "b", "c"]
    assert either.outcomes[call] == {}


def test_a_duplicated_decision_on_a_failed_call_does_not_throttle_again(client):
    client.ask("a", limit=1)
    for moment in (2, 6):
        client.wait_until(moment)
        client.receive(of=0, throttle_ms=5000)
    client.ask("b")
    client.wait_until(7)
    assert client.requested == ["a", "b"]


def test_a_duplicated_result_counts_once(applied):
    call = applied.ask("ab")
    applied.receive(refused="b", throttle_ms=5000)
    for _ in range(2):
        applied.receive_result("a", failed="a", of=0)
    applied.wait_until(5)
    applied.receive()
    applied.receive_result("a", of=0)
    assert applied.outcomes[call] == {"a": EXISTS}
    applied.receive_result("b")
    assert applied.outcomes[call] == {"a": EXISTS, "b": DONE}


def test_a_result_may_come_before_its_decision(applied):
    call = applied.ask("abc")
    future = call.pending["a"]
    for _ in range(2):
        applied.receive_result("ac", failed="c")
    assert future.decision_id == "mutation-requests-0-0"
    applied.receive(refused="b", throttle_ms=5000)
    assert applied.outcomes[call] == {"a": DONE, "c": EXISTS}
    applied.wait_until(5)
    assert applied.requested == ["abc", "b"]


def test_two_calls_for_a_topic_of_one_name_have_separate_results(applied):
    first, second = applied.ask("a"), applied.ask("a")
    applied.receive(of=1)
    applied.receive(of=0)
    applied.receive_result("a", of=0)
    assert applied.outcomes == {first: {"a": DONE}}
    applied.receive_result("a", failed="a", of=1)
    assert applied.outcomes[second] == {"a": EXISTS}


@pytest.mark.parametrize("somebody", [{"user": "mallory"}, {"client_id": "other"}])
def test_a_decision_for_another_user_with_the_same_id_is_ignored(applied, somebody):
    """It neither mutes nor completes anything; the client's own answer still counts."""
    call = applied.ask("a")
    applied.receive(refused="a", throttle_ms=99_000, **somebody)
    applied.receive_result("a", failed="a", **somebody)
    assert applied.outcomes[call] == {}
    applied.ask("b")
    assert applied.requested == ["a", "b"]
    applied.receive(of=0)
    applied.receive_result("a", of=0)
    assert applied.outcomes[call] == {"a": DONE}


def test_a_dead_letter_of_another_users_topic_is_ignored():
    """Its value is untrusted; even truncated, it begins with the client's own id."""
    letter = DeadLetter(error="e", value='{"request_id":"me-1","us', timestamp=None, source=Source("r.alice", 0, 7))
    assert rejected_id(letter, "r.alice") == "me-1"
    assert rejected_id(letter, "r.bob") is None
    assert rejected_id(msgspec.structs.replace(letter, value=None), "r.alice") is None


# Requests that will have no decision


def test_the_topics_of_a_request_that_is_rejected_fail_with_the_reason(quick):
    """Other topics of the call and other calls are not affected."""
    call, other = quick.ask("ab"), quick.ask("c")
    future = call.pending["b"]
    quick.receive(of=0, refused="b", throttle_ms=5000)
    quick.wait_until(5)
    quick.reject(error="topics: too many")
    assert quick.outcomes[call] == {"a": DONE, "b": "INVALID_REQUEST"}
    assert future.exception(0).args[0].str() == "topics: too many"
    quick.receive(of=1)
    assert quick.outcomes[other] == {"c": DONE}


def test_a_rejection_after_the_decision_changes_nothing(either):
    call = either.ask("a")
    either.receive()
    either.reject()
    either.lose()
    assert either.outcomes[call] == {}


def test_a_decision_after_the_rejection_changes_nothing(client):
    call = client.ask("ab")
    client.lose()
    client.receive(refused="b")
    assert client.outcomes[call] == {"a": "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "b": "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}
    assert (client.requested, client.begun) == (["ab"], [])


# The end


def test_closing_settles_all_open_calls(applied):
    """Refused for 50 s at 0 s, and closed at 20 s. Nothing is sent after it."""
    undecided = applied.ask("u")
    partly = applied.ask("ar")
    applied.receive(refused="r", throttle_ms=50_000)
    waiting = applied.ask("w")
    applied.wait_until(20)
    applied.close()
    expected = {undecided: {"u": CLOSED}, partly: {"a": CLOSED, "r": 30_000}, waiting: {"w": 30_000}}
    assert applied.outcomes == expected
    assert applied.remembered == []
    applied.receive(of=0, refused="u")
    applied.receive_result("a")
    applied.wait_until(1000)
    assert (applied.outcomes, applied.requested) == (expected, ["u", "ar"])


def test_closing_settles_a_call_whose_mutations_are_not_found_yet(client):
    call = client.ask("a")
    client.close()
    assert client.outcomes[call] == {"a": CLOSED}


# What is remembered


def refused_and_then_done(client):
    client.receive(refused="b", throttle_ms=5000)
    client.finish_all("a")
    client.wait_until(5)
    client.receive()
    client.finish_all("b")


def refused_until_the_time_limit(client):
    for moment in (20, 40, 60):
        client.receive(refused="ab", throttle_ms=20_000)
        client.wait_until(moment)


def decided_too_late(client):
    client.wait_until(60)
    client.receive_result("a")
    client.receive(refused="b", throttle_ms=5000)


def rejected_after_its_result(client):
    """This happens if too few replicas had it when it was written."""
    client.receive_result("ab")
    client.lose()


@pytest.mark.parametrize(
    "ended",
    [
        refused_and_then_done,
        refused_until_the_time_limit,
        decided_too_late,
        rejected_after_its_result,
        Client.reject,
        lambda client: client.wait_until(60),
    ],
)
def test_ended_calls_are_forgotten(either, ended):
    either.ask("ab")
    ended(either)
    assert either.remembered == []


# Any order of events

quarters = st.integers(0, 40).map(lambda number: number / 4)
indices = st.integers(0, 5)


class Witness(Client):
    """Compares every action of a client with the answers that it got. Each topic has a unique name."""

    def __init__(self, loop, applied_by):
        super().__init__(loop, applied_by)
        self.call_of, self.decided, self.answered = {}, {}, set()
        self.state, self.request_of, self.refused, self.expected = {}, {}, {}, defaultdict(set)
        self.muted_until = float("-inf")  # by the decisions received
        self.is_closed = False

    def begin(self, call):
        self.call_of |= dict.fromkeys(call.pending, call)
        self.state |= dict.fromkeys(call.pending, "waiting")

    @property
    def open(self):
        return [name for name, call in self.call_of.items() if name not in self.outcomes[call]]

    def names(self, request):
        return [topic.name for topic in request.topics]

    def send(self, request, on_delivery):
        super().send(request, on_delivery)
        assert not self.is_closed
        assert self.loop.now >= self.muted_until, "a request was sent before the throttle time was over"
        [call] = {self.call_of[name] for name in self.names(request)}
        assert self.loop.now < call.deadline
        assert request.validate_only == call.options.validate_only
        for name in self.names(request):
            assert (self.state[name], name in self.open) == ("waiting", True)
            self.state[name], self.request_of[name] = "requested", request.request_id

    async def carry_out(self, tasks, until):
        assert not self.is_closed
        assert self.applied_by is CLIENT
        for task in tasks:
            call = self.call_of[task.name]
            assert (task.validate_only, until) == (call.options.validate_only, call.deadline)
            assert self.state[task.name] == "admitted"
            self.state[task.name] = "begun"
        return await super().carry_out(tasks, until)

    def settled(self, call, name, future):
        assert name in self.open, "a topic was settled twice"
        super().settled(call, name, future)
        outcome, state = self.outcomes[call][name], self.state[name]
        if outcome in self.expected[name]:
            return
        if isinstance(outcome, int):
            shortest = self.refused.get(name, 0)
            longest = max(self.muted_until, shortest)
            assert max(0, shortest - self.loop.now) <= outcome / 1000 <= max(0, longest - self.loop.now)
            assert state in {"waiting", "requested"}
        elif outcome == CLOSED:
            assert self.is_closed
        else:
            assert (outcome, state in {"admitted", "begun"}) in {(NO_DECISION, False), (NO_RESULT, True)}
            assert state != "requested" or name not in self.refused
        is_final = isinstance(outcome, int) and not call.options.retry_on_quota_violation
        assert is_final or self.is_closed or self.loop.now >= call.deadline


class AnyOrderOfEvents(RuleBasedStateMachine):
    """Each topic is settled once and in time, nothing is sent while it is muted, and nothing waits longer than that."""

    @initialize(applied_by=st.sampled_from(AppliedBy), closes=st.booleans())
    def begin(self, applied_by, closes):
        self.client, self.closes = Witness(VirtualLoop(), applied_by), closes

    def one_of_the_requests(self, index):
        return self.client.sent[-1 - index % len(self.client.sent)]

    def decision_on(self, request, refusals, seconds):
        """Return the decision on a request, which is always the same."""
        refused = [name for number, name in enumerate(self.client.names(request)) if refusals >> number & 1]
        return self.client.decided.setdefault(request.request_id, decision(request, refused, round(seconds * 1000)))

    @rule(count=st.integers(1, 3), limit=quarters, retry=st.booleans(), validate_only=st.booleans())
    def ask(self, count, limit, retry, validate_only):
        client, names = self.client, [f"topic-{len(self.client.call_of) + number}" for number in range(count)]
        client.ask(names, 0.25 + limit, validate_only=validate_only, retry_on_quota_violation=retry)
        assert client.loop.now < client.muted_until or client.names(client.sent[-1]) == names

    @precondition(lambda self: self.client.sent)
    @rule(index=indices, refusals=st.integers(0, 7), seconds=quarters)
    def decide(self, index, refusals, seconds):
        """Deliver the first copy of a decision or another one, also of ended calls."""
        client, request = self.client, self.one_of_the_requests(index)
        if client.decided.get(request.request_id, ...) is None:
            return  # it was rejected
        decided = self.decision_on(request, refusals, seconds)
        until = client.loop.now + decided.throttle_time_ms / 1000
        if request.request_id not in client.answered:
            client.answered.add(request.request_id)
            client.muted_until = max(client.muted_until, until)
            for topic in decided.topics:
                if topic.name not in client.open:
                    continue
                if topic.error_code:
                    client.state[topic.name], client.refused[topic.name] = "waiting", until
                else:
                    client.state[topic.name] = "admitted"
                    client.refused.pop(topic.name, None)
        client.get(decided)

    @precondition(lambda self: self.client.sent and self.client.applied_by is APPLIER)
    @rule(index=indices, refusals=st.integers(0, 7), seconds=quarters, failures=st.integers(0, 7))
    def apply(self, index, refusals, seconds, failures):
        """Deliver the result of a decision that the client may have received or not, or of an earlier one."""
        client, request = self.client, self.one_of_the_requests(index)
        if client.decided.get(request.request_id, ...) is None:
            return
        decided = self.decision_on(request, refusals, seconds)
        names = [topic.name for topic in decided.topics if not topic.error_code]
        failed = [name for number, name in enumerate(names) if failures >> number & 1]
        for name in names:
            client.expected[name].add(EXISTS if name in failed else DONE)
        client.get(result(request, *names, failed=failed))
        assert not set(names).intersection(client.open)

    @precondition(lambda self: self.client.begun)
    @rule(index=indices)
    def finish(self, index):
        """Have tasks carried out, perhaps of a call that has ended."""
        number = index % len(self.client.begun)
        for name in self.client.begun[number][0]:
            self.client.expected[name].add(DONE)
        self.client.finish(of=number)

    @precondition(lambda self: self.client.sent)
    @rule(index=indices)
    def reject(self, index):
        client, request = self.client, self.one_of_the_requests(index)
        if client.decided.setdefault(request.request_id, None) is not None:
            return
        for name in client.names(request):
            client.expected[name].add("INVALID_REQUEST")
        client.reject(of=client.sent.index(request))
        assert not set(client.names(request)).intersection(client.open)

    @rule(seconds=quarters, late=st.booleans())
    def wait(self, seconds, late):
        loop = self.client.loop
        (loop.oversleep if late else loop.wait_until)(loop.now + seconds)
        assert all(self.client.call_of[name].deadline > loop.now for name in self.client.open)
        if loop.now >= self.client.muted_until:
            assert "waiting" not in {self.client.state[name] for name in self.client.open}

    @invariant()
    def nothing_is_remembered_of_calls_that_have_ended(self):
        assert self.client.open or not self.client.calls._applying  # noqa: SLF001

    def teardown(self):
        client = self.client
        if self.closes:
            client.is_closed = True
            client.close()
        else:
            client.wait_until(client.loop.now + 20)
        assert (client.open, client.remembered) == ([], [])
        sent, carried = list(client.sent), client.carried
        for request in sent:
            decided = client.decided.get(request.request_id)
            if decided is not None:
                client.get(result(request, *client.names(request)))
                client.get(decided)
        client.wait_until(client.loop.now + 1000)
        assert (client.sent, client.carried) == (sent, carried)
        client.loop.end()


TestAnyOrderOfEvents = AnyOrderOfEvents.TestCase
