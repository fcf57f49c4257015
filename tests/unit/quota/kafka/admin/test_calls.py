"""A client's calls: what is requested when, and what becomes of each topic."""

import asyncio
from collections import defaultdict

import msgspec
import pytest
from confluent_kafka import KafkaError
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from quota.kafka.admin.calls import Call, CallOptions, Calls, ThrottlingQuotaExceededError, TopicFuture
from quota.kafka.awaited_decisions import AwaitedDecisions
from quota.kafka.requests_and_answers import ReceivedAnswer
from quota.records.dead_letter import DeadLetter
from quota.records.record import Source
from quota.records.request import STRICT_SINCE, Mode, Operation, TopicMutation
from quota.records.result import TopicResult
from quota.settings.sections import TopicSettings
from tests.support.virtual_time import VirtualLoop
from tests.unit.quota.gateway.play import decision_on

LOST = KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND
"""The error of a request that may have been written after all."""


def decision(request, rejected="", throttle_ms=0, **fields):
    """Return the decision on a request, which rejects some of its topics."""
    return msgspec.structs.replace(
        decision_on(request, rejected, throttle_ms), request_id=request.request_id, **{"retry_at": throttle_ms} | fields
    )


def topic_results(names, failed=""):
    return [TopicResult(name, 36, "", "exists") if name in failed else TopicResult(name) for name in names]


def outcome_of(error):
    """Return the outcome of a topic in a word; a throttle time in ms."""
    if error is None:
        return "done"
    if isinstance(error, ThrottlingQuotaExceededError):
        return f"{error.throttle_time_ms}ms"
    name, message = error.args[0].name(), error.args[0].str()
    if name == "_TIMED_OUT":
        return "undecided" if message.startswith("no decision on topic") else "unknown"
    return {"_DESTROY": "closed", "TOPIC_ALREADY_EXISTS": "exists"}.get(name, name)


class Client:
    """The calls of a client, and a record of its requests and outcomes, each with its time.

    Topics have names of one letter.
    """

    def __init__(self, loop, **options):
        self.loop = loop
        self.sent, self.tasks, self.begun, self.delivered, self.running = [], [], [], {}, []
        self.requests, self.outcomes, self.withdrawn = [], [], []
        self.invalid, self.validated = "", []
        self.calls = Calls("alice", "app", carry_out=self.carry_out, servers="", **options)
        self.decisions = AwaitedDecisions(self, None, TopicSettings(), "me-", self.calls.on_decision)

    def send(self, request, on_delivery):
        if request.withdraws:
            self.withdrawn.append("".join(topic.name for topic in request.topics))
            return
        self.sent.append(request)
        self.delivered[request.request_id] = on_delivery
        self.requests.append(f"{self.loop.now:g} {''.join(topic.name for topic in request.topics)}")

    async def carry_out(self, tasks, until):
        if all(task.validate_only for task in tasks) and not self.only_validates:
            self.validated.append("".join(task.name for task in tasks))
            return topic_results([task.name for task in tasks], self.invalid)
        self.tasks += tasks
        self.begun.append(([task.name for task in tasks], until, self.loop.create_future()))
        return await self.begun[-1][2]

    def settled(self, call, name, future):  # noqa: ARG002 for subclasses
        self.outcomes.append(f"{self.loop.now:g} {name} {outcome_of(future.exception())}")

    def start(self, topics, limit=60.0, operation=Operation.CREATE_TOPICS, **options):
        """Start a call, and return its futures."""
        futures = {topic.name: TopicFuture() for topic in topics}
        self.only_validates = options.get("validate_only", False)
        call = Call(CallOptions(operation, **options), dict(futures), self.loop.now + limit)
        for name, future in futures.items():
            future.add_done_callback(lambda done, name=name: self.settled(call, name, done))

        async def find():
            return topics

        self.started(call)
        self.running.append(self.loop.create_task(self.calls.run(call, find(), self.decisions)))
        self.loop.settle()
        return futures

    def started(self, call):
        """Take note of a call before its first request."""

    def get(self, answer):
        self.loop.call_soon(self.decisions.receive, ReceivedAnswer(answer, 1))
        self.loop.settle()

    def finish(self, number=-1, failed=""):
        """Have tasks carried out that were begun."""
        names, _, future = self.begun[number]
        if not future.done():
            future.set_result(topic_results(names, failed))
        self.loop.settle()

    @property
    def remembered(self):
        """All that it remembers of requests and calls: a leak is visible only here."""
        return [*self.decisions._pending, *asyncio.all_tasks(self.loop)]  # noqa: SLF001

    # The words of a script

    def play(self, script):
        for step in script.split(", "):
            verb, *words = step.split()
            fields = dict(word.split("=") for word in words if "=" in word)
            getattr(self, verb)(*(word for word in words if "=" not in word), **fields)
        return ", ".join(self.requests), ", ".join(self.outcomes)

    def ask(self, names, limit="60", retry="yes"):
        """Request topics of one partition each."""
        topics = [TopicMutation(name, 1) for name in names]
        return self.start(topics, float(limit), retry_on_quota_violation=retry == "yes")

    def decide(self, rejected="", seconds="0", of="-1", **fields):
        """Receive the decision on the last request, or another one, with the rejected topics and a throttle time."""
        self.get(decision(self.sent[int(of)], rejected, round(float(seconds) * 1000), **fields))

    def done(self, names):
        """Have the topics carried out of which the client has begun the first one; upper case fails."""
        failed = [name.lower() for name in names if name.isupper()]
        for number, (begun, _, _) in enumerate(self.begun):
            if names[0].lower() in begun:
                self.finish(number, failed)

    def reject(self, of="-1"):
        """Receive a dead letter."""
        value = msgspec.json.encode(self.sent[int(of)]).decode()
        self.get(DeadLetter(error="too many", value=value, timestamp=1, source=Source("mutation-requests", 0, 0)))

    def lose(self, of="-1"):
        """Receive the producer's error of a request that may have been written."""
        self.delivered[self.sent[int(of)].request_id](KafkaError(LOST), None)
        self.loop.settle()

    def at(self, moment):
        self.loop.wait_until(float(moment))

    def late(self, moment):
        self.loop.oversleep(float(moment))

    def close(self):
        for task in self.running:
            task.cancel()
        self.loop.settle()


@pytest.fixture
def loop():
    loop = VirtualLoop()
    yield loop
    loop.end()


@pytest.fixture
def client(loop):
    return Client(loop)


LOST_AB = "0 a NOT_ENOUGH_REPLICAS_AFTER_APPEND, 0 b NOT_ENOUGH_REPLICAS_AFTER_APPEND"
ASKED = "at 2, ask a, ask b, ask c, ask d, ask ef, at 50"
SENT = "5 a, 5 b, 5 c, 5 d, 5 ef"

BEHAVIOURS = {
    # What is admitted
    "a call is one request, and its topics are complete when they are carried out": (
        ("ask cab, decide, at 1, done cAb", "0 cab", "1 c done, 1 a exists, 1 b done"),
    ),
    "admitted topics wait neither for rejected ones nor for the throttle time": (
        ("ask abc, decide b 5, done ac", "0 abc", "0 a done, 0 c done"),
        ("ask ab, decide seconds=5, done ab", "0 ab", "0 a done, 0 b done"),  # a permissive decision
    ),
    # What is rejected
    "only rejected topics are requested again, when the throttle time since the decision is over": (
        ("ask abc, at 2, decide ac 5, done b, at 20", "0 abc, 7 ac", "2 b done"),
        ("ask abc, decide bc 5, at 5, decide c 10, at 20", "0 abc, 5 bc, 15 c", ""),
        ("ask ab, decide b 0", "0 ab, 0 b", ""),
    ),
    "without retries they fail at once with the throttle time": (
        ("ask abc retry=no, decide ac 5, done b, at 90", "0 abc", "0 a 5000ms, 0 c 5000ms, 0 b done"),
    ),
    # The time limit
    "at the time limit topics without an answer fail": (
        ("ask ab, at 60", "0 ab", "60 a undecided, 60 b undecided"),
        ("ask ab, decide, at 60", "0 ab", "60 a unknown, 60 b unknown"),
    ),
    "at the time limit rejected topics fail with the remaining throttle time": (
        ("ask ab, at 10, decide ab 90, at 200", "0 ab", "60 a 40000ms, 60 b 40000ms"),
        ("ask ab, decide b 70, at 200", "0 ab", "60 a unknown, 60 b 10000ms"),
        ("ask a, decide a 5, at 60", "0 a, 5 a", "60 a 0ms"),  # and not decided again
        ("ask a, decide a 5, at 5, decide, at 60", "0 a, 5 a", "60 a unknown"),
        ("ask a, decide a 60, at 200", "0 a", "60 a 0ms"),
    ),
    "topics held back by a throttle fail with the remaining throttle time, even if they were never requested": (
        ("ask z retry=no, decide z 90, at 10, ask a, ask b, at 200", "0 z", "0 z 90000ms, 70 a 20000ms, 70 b 20000ms"),
    ),
    "nothing is requested after the time limit, even if it is seen late": (
        ("ask a, decide a 59.99, late 65", "0 a", "65 a 0ms"),
        ("ask a, decide a 90, late 65", "0 a", "65 a 25000ms"),
        ("ask a limit=-0.5", "", "0 a undecided"),
    ),
    "a time limit ends its own call alone": (
        ("ask a limit=5, ask a, at 5, decide of=1, done a", "0 a, 0 a", "5 a undecided, 5 a done"),
    ),
    "answers after the time limit change nothing": (
        (
            "ask a limit=5, ask b limit=5, decide of=1, at 5, decide of=0, done b, lose of=0, at 90",
            "0 a, 0 b",
            "5 a undecided, 5 b unknown",
        ),
    ),
    # Silence after a throttle
    "nothing is sent during a throttle; what waits is sent then, in its order": (
        (f"ask z, decide seconds=5, {ASKED}", f"0 z, {SENT}", None),
        (f"ask yz retry=no, decide z 5, {ASKED}", f"0 yz, {SENT}", None),
        (f"ask z, lose, decide seconds=5, {ASKED}", f"0 z, {SENT}", None),  # it was written after all
        (f"ask z limit=1, at 1, decide seconds=4, {ASKED}", f"0 z, {SENT}", None),  # its call has failed
        (f"ask y, ask z, decide seconds=5 of=0, decide seconds=2, {ASKED}", f"0 y, 0 z, {SENT}", None),
        (f"ask y, ask z, decide seconds=5, decide seconds=0 of=0, {ASKED}", f"0 y, 0 z, {SENT}", None),
    ),
    "a throttle applies to the retries of other calls": (
        ("ask a, ask b, decide a 5 of=0, at 3, decide seconds=6 of=1, at 20", "0 a, 0 b, 9 a", ""),
    ),
    # Copies and strangers
    "a copy of a decision counts once, and does not throttle again": (
        ("ask ab, decide b 5, at 4, decide b 5 of=0, at 5, decide b 5 of=0, ask c", "0 ab, 5 b, 5 c", ""),
        ("ask a limit=1, at 2, decide seconds=5, at 6, decide seconds=5, ask b, at 7", "0 a, 7 b", "1 a undecided"),
    ),
    "answers to another user or client-id with the same id are ignored": (
        ("ask a, decide a 90 user=eve, decide a 90 client_id=x, ask b, decide of=0, done a", "0 a, 0 b", "0 a done"),
    ),
    # Requests without a decision
    "the topics of a rejected request fail, and no others": (
        ("ask ab, ask c, decide b 5 of=0, done a, at 5, reject", "0 ab, 0 c, 5 b", "0 a done, 5 b INVALID_REQUEST"),
        ("ask ab, lose, decide b 5, at 20", "0 ab", LOST_AB),
        ("ask a, decide, reject, lose, done a", "0 a", "0 a done"),
    ),
    # The end
    "closing fails all topics": (
        (
            "ask u, ask ar, decide r 50, ask w, at 20, close, decide u 0 of=0, at 100",
            "0 u, 0 ar",
            "20 u closed, 20 a closed, 20 r 30000ms, 20 w 30000ms",
        ),
    ),
}


def rows(behaviours):
    return [pytest.param(*row, id=f"{name}: {row[0]}") for name, table in behaviours.items() for row in table]


@pytest.mark.parametrize(("script", "requests", "outcomes"), rows(BEHAVIOURS))
def test_a_client_behaves_as_the_kips_say(client, script, requests, outcomes):
    """Each request and each outcome has its time [s]. Whoever ended a call remembers nothing of it."""
    seen = client.play(script)
    assert seen == (requests, seen[1] if outcomes is None else outcomes)
    admitted = "".join(sorted(task.name for task in client.tasks))
    assert len(set(admitted)) == len(admitted), "a mutation was carried out twice"
    client.play("at 300")
    assert client.remembered == []


def test_what_the_cluster_would_not_create_is_not_requested_and_costs_nothing(client):
    client.invalid = "b"
    client.start([TopicMutation(name, 6) for name in "abc"])
    assert (client.validated, client.requests) == (["abc"], ["0 ac"])
    assert client.outcomes == ["0 b exists"]
    client.decide("a", "5")
    client.loop.wait_until(6)
    assert (client.validated, client.requests) == (["abc"], ["0 ac", "5 a"])  # it is validated once


@pytest.mark.parametrize(
    "options",
    [{"validate_only": True}, {"operation": Operation.DELETE_TOPICS}, {"operation": Operation.CREATE_PARTITIONS}],
)
def test_what_costs_nothing_or_cannot_be_validated_is_not_validated_before(client, options):
    client.start([TopicMutation("a", 6)], **options)
    assert (client.validated, client.requests) == ([], ["0 a"])


@pytest.mark.parametrize("validate_only", [True, False])
@pytest.mark.parametrize("operation", Operation)
def test_a_request_and_its_tasks_have_all_that_is_known(client, loop, operation, validate_only, monkeypatch):
    """It has a version with throttling, and expires with the call, as a retry does."""
    monkeypatch.setattr("quota.kafka.awaited_decisions.now_ms", lambda: round(loop.now * 1000))
    topics = [TopicMutation("c", 2, replication_factor=3, configs={"x": "1"})]
    client.start(topics, operation=operation, validate_only=validate_only)
    client.play("decide c 20, at 20, decide")
    assert [request.request_id[:3] for request in client.sent] == ["me-", "me-"]
    assert client.sent[0].request_id != client.sent[1].request_id
    for request in client.sent:
        assert (request.user, request.client_id, request.topics) == ("alice", "app", topics)
        assert (request.operation, request.validate_only, request.apply) == (operation, validate_only, False)
        assert (request.api_version, request.mode) == (STRICT_SINCE[operation], Mode.STRICT)
        assert (request.request_throttle_ms, request.purgatory_ms) == (0, 0)
        assert request.expires_at == 60_000
    tasks = [(task.operation, task.topic, task.validate_only, task.maybe_done) for task in client.tasks]
    assert tasks == [(operation, topics[0], validate_only, False)]
    assert [until for _, until, _ in client.begun] == [60.0]


def test_a_future_has_the_last_decision_on_its_topic(client):
    futures = client.ask("ab")
    client.decide("b", decision_id="mutation-requests-0-7")
    client.decide(decision_id="mutation-requests-0-8")
    assert [future.decision_id for future in futures.values()] == ["mutation-requests-0-7", "mutation-requests-0-8"]


def test_a_call_that_ends_without_a_decision_withdraws_its_request_and_says_what_is_known(client):
    """That decisions take as long as this one has waited; or that there is none, if nothing was ever decided."""
    silent = client.ask("a", 2)["a"]
    client.at(2)
    client.decide()
    slow = client.ask("b", 2)["b"]
    client.at(5)
    words = [future.exception(0).args[0].str() for future in (silent, slow)]
    assert words == [
        "no decision on topic a in time; is mutation-quota enforce running on ? The change will not be made later",
        "no decision on topic b in time; decisions take at least 2000 ms at present. The change will not be made later",
    ]
    assert client.withdrawn == ["a", "b"]


def test_a_rejected_topic_fails_with_the_decision_that_rejected_it_last(client):
    """One that was never requested, because of an earlier throttle, has none."""
    rejected = client.ask("a")["a"]
    client.decide("a", "5", decision_id="mutation-requests-0-7", retry_at=5000)
    client.at(5)
    debt = {"decision_id": "mutation-requests-0-8", "tokens": -350.0, "more_tags": {}}
    client.decide("a", "70", retry_at=75_000, **debt)
    held_back = client.ask("b", 55)["b"]
    client.at(60)
    errors = [future.exception(0) for future in (rejected, held_back)]
    assert [error.decision_id for error in errors] == ["mutation-requests-0-8", None]
    assert [(error.retry_at, error.retryable) for error in errors] == [(75_000, True), (None, True)]
    told = "user alice may change 5 partitions/s and is 350 over; try again in 15 s; decision mutation-requests-0-8"
    assert [error.args[0].str() for error in errors] == [told, told]


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{reason}; quotas: wiki/kafka", "everybody who shares this quota may change 5 partitions/s and is 5 over; "),
        ("", "The throttling quota has been exceeded: try topic a again in 1 s."),
    ],
)
def test_the_message_of_a_rejected_topic_is_as_the_application_has_set_it(loop, template, told):
    client = Client(loop, rejection_message=template)
    (future,) = client.ask("a", retry="no").values()
    client.decide("a", "1", tokens=-5.0)
    assert future.exception(0).args[0].str().startswith(told)


def test_a_topic_above_the_limit_fails_at_once_and_is_not_requested_again(client):
    (future,) = client.ask("b").values()
    client.get(
        msgspec.structs.replace(decision_on(client.sent[0], exceeding="b"), request_id=client.sent[0].request_id)
    )
    client.at(50)
    assert (client.requests, client.outcomes) == (["0 b"], ["0 b POLICY_VIOLATION"])
    said = "The topic costs too much"
    assert (future.exception(0).args[0].str(), future.decision_id) == (said, "mutation-requests-1-7")


@pytest.mark.parametrize("now", [0.3, 1.1, 7.7, 100.1, 12_345.678])
@pytest.mark.parametrize(("throttle_ms", "slow_seconds"), [(1, 0), (100, 0.05), (1001, 0), (12_000, 0.05)])
def test_the_reported_throttle_time_is_that_of_the_decision_to_the_millisecond(client, now, throttle_ms, slow_seconds):
    """It does not matter whether the client is slow to process it."""
    client.at(now)
    future = client.ask("a", retry="no")["a"]
    client.loop.call_soon(client.decisions.receive, ReceivedAnswer(decision(client.sent[0], "a", throttle_ms), 1))
    client.loop.call_soon(setattr, client.loop, "now", now + slow_seconds)
    client.loop.settle()
    assert future.exception(0).throttle_time_ms == throttle_ms


def test_topics_whose_mutations_cannot_be_found_or_carried_out_fail_with_the_reason(client):
    async def find():
        raise KeyError("no broker")

    failed, carried = TopicFuture(), client.ask("b")["b"]
    call = Call(CallOptions(Operation.DELETE_TOPICS), {"a": failed}, 60.0)
    client.loop.run_until_complete(client.calls.run(call, find(), client.decisions))
    client.decide()
    client.begun[0][2].set_exception(RuntimeError("a bug"))
    client.loop.settle()
    assert [type(future.exception(0)) for future in (failed, carried)] == [KeyError, RuntimeError]


# Any order of events

quarters = st.integers(0, 40).map(lambda number: number / 4)
indices = st.integers(0, 5)


class Witness(Client):
    """Compares every action of a client with the answers that it got. Each topic has a unique name."""

    def __init__(self, loop):
        super().__init__(loop)
        self.call_of, self.settled_names, self.decided, self.answered = {}, set(), {}, set()
        self.state, self.rejected, self.expected = {}, {}, defaultdict(set)
        self.muted_until = float("-inf")  # by the decisions received
        self.is_closed = False

    @property
    def open(self):
        return self.call_of.keys() - self.settled_names

    def started(self, call):
        self.call_of |= dict.fromkeys(call.pending, call)
        self.state |= dict.fromkeys(call.pending, "waiting")

    def send(self, request, on_delivery):
        super().send(request, on_delivery)
        names = {topic.name for topic in request.topics}
        [call] = {self.call_of[name] for name in names}
        assert not self.is_closed
        assert self.muted_until <= self.loop.now < call.deadline
        assert {self.state[name] for name in names} == {"waiting"}
        assert names <= self.open
        self.state |= dict.fromkeys(names, "requested")

    async def carry_out(self, tasks, until):
        assert not self.is_closed
        for task in tasks:
            if task.validate_only:
                assert self.state[task.name] == "waiting"
                continue
            assert self.state[task.name] == "admitted"
            self.state[task.name] = "begun"
        return await super().carry_out(tasks, until)

    def settled(self, call, name, future):
        assert name in self.open, "a topic was settled twice"
        self.settled_names.add(name)
        outcome, state = outcome_of(future.exception()), self.state[name]
        if outcome in self.expected[name]:
            return
        throttled = outcome.endswith("ms")
        if throttled:
            shortest = self.rejected.get(name, 0)
            longest = max(self.muted_until, shortest)
            assert max(0, shortest - self.loop.now) <= float(outcome[:-2]) / 1000 <= max(0, longest - self.loop.now)
            assert state in {"waiting", "requested"}
        elif outcome == "closed":
            assert self.is_closed
        else:
            assert (outcome, state in {"admitted", "begun"}) in {("undecided", False), ("unknown", True)}
            assert state != "requested" or name not in self.rejected
        is_final = throttled and not call.options.retry_on_quota_violation
        assert is_final or self.is_closed or self.loop.now >= call.deadline


class AnyOrderOfEvents(RuleBasedStateMachine):
    """Each topic is settled once and in time, nothing is sent while it is muted, and nothing waits longer than that."""

    @initialize(closes=st.booleans())
    def begin(self, closes):
        self.client, self.closes = Witness(VirtualLoop()), closes

    def decision_on(self, index, rejections, seconds):
        """Return the decision on a request, which is always the same; None if it was rejected."""
        request = self.client.sent[index % len(self.client.sent)]
        rejected = [topic.name for number, topic in enumerate(request.topics) if rejections >> number & 1]
        return self.client.decided.setdefault(request.request_id, decision(request, rejected, round(seconds * 1000)))

    @rule(count=st.integers(1, 3), limit=quarters, retry=st.booleans())
    def ask(self, count, limit, retry):
        client, first = self.client, len(self.client.call_of)
        topics = [TopicMutation(f"topic-{first + number}", 1) for number in range(count)]
        client.start(topics, 0.25 + limit, retry_on_quota_violation=retry)
        assert client.loop.now < client.muted_until or client.sent[-1].topics == topics

    @precondition(lambda self: self.client.sent)
    @rule(index=indices, rejections=st.integers(0, 7), seconds=quarters)
    def decide(self, index, rejections, seconds):
        """Deliver the first copy of a decision or another one, also of ended calls."""
        client, decided = self.client, self.decision_on(index, rejections, seconds)
        if decided is None:
            return
        until = client.loop.now + decided.throttle_time_ms / 1000
        if decided.request_id not in client.answered:
            client.answered.add(decided.request_id)
            client.muted_until = max(client.muted_until, until)
            for topic in decided.topics:
                if topic.name in client.open and topic.error_code:
                    client.state[topic.name], client.rejected[topic.name] = "waiting", until
                elif topic.name in client.open:
                    client.state[topic.name] = "admitted"
                    client.rejected.pop(topic.name, None)
        client.get(decided)

    @precondition(lambda self: self.client.begun)
    @rule(index=indices)
    def finish(self, index):
        """Have tasks carried out, perhaps of a call that has ended."""
        number = index % len(self.client.begun)
        for name in self.client.begun[number][0]:
            self.client.expected[name].add("done")
        self.client.finish(number)

    @precondition(lambda self: self.client.sent)
    @rule(index=indices)
    def reject(self, index):
        client, request = self.client, self.client.sent[index % len(self.client.sent)]
        if client.decided.setdefault(request.request_id, None) is None:
            names = [topic.name for topic in request.topics]
            for name in names:
                client.expected[name].add("INVALID_REQUEST")
            client.get(
                DeadLetter(
                    error="e",
                    value=msgspec.json.encode(request).decode(),
                    timestamp=1,
                    source=Source("mutation-requests", 0, 0),
                )
            )
            assert client.open.isdisjoint(names)

    @rule(seconds=quarters, late=st.booleans())
    def wait(self, seconds, late):
        client, loop = self.client, self.client.loop
        (loop.oversleep if late else loop.wait_until)(loop.now + seconds)
        assert all(client.call_of[name].deadline > loop.now for name in client.open)
        assert loop.now < client.muted_until or "waiting" not in {client.state[name] for name in client.open}

    def teardown(self):
        client = self.client
        if self.closes:
            client.is_closed = True
            client.close()
        else:
            client.at(client.loop.now + 20)
        assert (client.open, client.remembered) == (set(), [])
        client.loop.end()


TestAnyOrderOfEvents = AnyOrderOfEvents.TestCase
