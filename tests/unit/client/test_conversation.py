"""A client's calls, step by step: what is sent when, what becomes of each topic, and what stays silent until when."""

from collections import defaultdict
from dataclasses import replace

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quota.admission.decide import decide
from quota.algorithms.token_bucket import TokenBucket
from quota.client.call import Call, CallOptions, NoAnswer, Refusal, Throttled, Wait
from quota.client.conversation import AppliedBy, Conversation, Effects
from quota.errors import ErrorCode
from quota.kafka.requests import rejected_id
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Outcome
from quota.records.entity import QuotaEntity, Tags
from quota.records.fields import BEGINNING
from quota.records.quota import Limit, Quota, Window
from quota.records.record import Source
from quota.records.request import STRICT_SINCE, Mode, Operation, TopicMutation
from quota.records.result import MutationResult, TopicResult
from quota.timeline.resolution import UNLIMITED, Resolution, ResolvedRequest
from tests.support.factories import record

CLIENT, APPLIER = AppliedBy.CLIENT, AppliedBy.APPLIER
NO_DECISION, NO_RESULT = Wait.DECISION, Wait.RESULT
THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def decision(request, refused="", throttle_time_ms=0, **fields):
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
    fields = {"retry_at": admitted.timestamp + throttle_time_ms, "throttle_time_ms": throttle_time_ms} | fields
    return msgspec.structs.replace(admitted, topics=topics, outcome=outcome, **fields)


def result(request, *topics, **fields):
    """Return an applier's result for a request's topics: success, or the given outcome."""
    return MutationResult(
        decision_id="mutation-requests-0-0",
        request_id=fields.get("request_id", request.request_id),
        user=request.user,
        client_id=request.client_id,
        operation=request.operation,
        validate_only=request.validate_only,
        topics=[TopicResult(topic) if isinstance(topic, str) else topic for topic in topics],
        timestamp=0,
        source=Source("mutation-decisions", 0, 0),
    )


def failed(name):
    return TopicResult(name, 36, "TOPIC_ALREADY_EXISTS", f"Topic '{name}' already exists.")


class Client:
    """A conversation with a clock, which starts at 0 s, and a record of what it does. Topics have names of a letter."""

    def __init__(self, applied_by=CLIENT, *, finishes=False):
        self.now, self.finishes = 0.0, finishes  # whether a mutation is carried out as soon as its decision is received
        self.sent, self.expiries, self.begun, self.tasks = [], [], [], []
        self.outcomes = defaultdict(dict)
        self.refusals = defaultdict(dict)  # of the outcomes that are throttled, which are stored without them
        effects = Effects(self.send, self.carry_out, self.settle)
        self.conversation = Conversation(effects, ("alice", "app"), "me-", applied_by)

    def send(self, request, until):
        self.sent.append(request)
        self.expiries.append(until)

    def carry_out(self, call, tasks):
        self.begun.append((call, "".join(task.name for task in tasks)))
        self.tasks += tasks

    def settle(self, call, topic, outcome):
        assert topic.name not in self.outcomes[call], "a topic was settled twice"
        assert outcome.name == topic.name
        if isinstance(outcome, Throttled):
            self.refusals[call][topic.name] = outcome.refusal
            outcome = replace(outcome, refusal=None)
        self.outcomes[call][topic.name] = outcome

    @property
    def requested(self):
        """The topics of each request."""
        return ["".join(topic.name for topic in request.topics) for request in self.sent]

    def ask(self, names, limit=60.0, operation=Operation.CREATE_TOPICS, **wanted):
        """Begin a call of a topic a letter, with a time limit."""
        topics = [TopicMutation(name=name, partitions=1) for name in names]
        call = Call(CallOptions(operation, **wanted), topics, self.now + limit)
        self.conversation.submit(call, self.now)
        return call

    def receive(self, refused="", throttle_ms=0, of=-1, **fields):
        """Receive the decision on a request, by default the last one."""
        self.decide(decision(self.sent[of], refused, throttle_ms, **fields))

    def decide(self, decided):
        begun = len(self.begun)
        self.conversation.on_decision(decided, self.now)
        if self.finishes:
            for call, names in self.begun[begun:]:
                self.finish(call, *names)

    def receive_result(self, *topics, of=-1):
        """Receive an applier's result for topics of a request, by default the last one."""
        self.conversation.on_result(result(self.sent[of], *topics))

    def finish(self, call, *topics):
        """Carry topics out."""
        self.conversation.on_topic_results(
            call, [TopicResult(topic) if isinstance(topic, str) else topic for topic in topics]
        )

    def wait_until(self, moment):
        """Come back whenever there is something to do."""
        while (at := self.conversation.next_at) is not None and at <= moment:
            self.oversleep(max(self.now, at))
        self.oversleep(moment)

    def oversleep(self, moment):
        """Come back once, however late."""
        self.now = moment
        self.conversation.run_due(moment)
        next_at = self.conversation.next_at
        assert next_at is None or next_at > moment, "something due was not done"

    def end(self):
        self.conversation.close(self.now)

    @property
    def remembered(self):
        """Return all that it remembers of requests and calls: a leak is visible only here."""
        kept = self.conversation
        return [*kept._undecided, *kept._unapplied, *kept._calls]  # noqa: SLF001


def muted(seconds, *arguments, **options):
    """A client that was throttled at 0 s."""
    client = Client(*arguments, **options)
    call = client.ask("z")
    client.receive(throttle_ms=seconds * 1000)
    client.receive_result("z")
    client.finish(call, "z")
    client.sent.clear()
    client.expiries.clear()
    client.begun.clear()
    return client


# One request a call


def test_a_call_is_one_request_for_all_its_topics_in_their_order():
    client = Client()
    client.ask("cab")
    assert client.requested == ["cab"]


def test_a_call_knows_the_last_decision_on_each_topic():
    client = Client()
    call = client.ask("ab")
    assert call.decision_ids == {}
    client.receive(refused="b", decision_id="mutation-requests-0-7")
    client.receive(decision_id="mutation-requests-0-8")
    assert call.decision_ids == {"a": "mutation-requests-0-7", "b": "mutation-requests-0-8"}


def test_a_call_whose_result_arrives_before_the_decision_knows_the_decision():
    client = Client(APPLIER)
    call = client.ask("a")
    client.receive_result("a")
    assert call.decision_ids == {"a": "mutation-requests-0-0"}


@pytest.mark.parametrize("operation", Operation)
def test_a_request_has_its_sender_and_content_in_a_version_with_throttling(operation):
    client = Client()
    client.ask("a", operation=operation)
    [request] = client.sent
    assert (request.user, request.client_id) == ("alice", "app")
    assert request.operation is operation
    assert request.api_version >= STRICT_SINCE[operation]
    assert request.mode is Mode.STRICT
    assert (request.request_throttle_ms, request.purgatory_ms) == (0, 0)


def test_a_request_has_all_known_fields_of_its_topics():
    client = Client()
    topic = TopicMutation(name="a", partitions=2, replication_factor=3, configs={"retention.ms": "1"})
    client.conversation.submit(Call(CallOptions(Operation.CREATE_TOPICS), [topic], 60.0), 0.0)
    assert client.sent[0].topics == [topic]
    client.receive()
    assert client.tasks[0].topic == topic


@pytest.mark.parametrize(("applied_by", "apply"), [(CLIENT, False), (APPLIER, True)])
def test_an_applier_carries_out_only_mutations_that_the_client_does_not(applied_by, apply):
    client = Client(applied_by)
    client.ask("a")
    assert client.sent[0].apply is apply


@pytest.mark.parametrize("validate_only", [True, False])
def test_a_validation_is_only_a_validation(validate_only):
    client = Client()
    client.ask("a", validate_only=validate_only)
    assert client.sent[0].validate_only is validate_only
    client.receive()
    assert [task.validate_only for task in client.tasks] == [validate_only]


def test_the_ids_of_requests_begin_with_the_clients_own_prefix_and_are_never_used_again():
    client = Client()
    for round_ in range(10):
        client.ask("ab")
        client.ask("c")
        client.receive(of=-2, refused="b", throttle_ms=1000)
        client.wait_until(round_ + 1.0)
    ids = [request.request_id for request in client.sent]
    assert len(ids) == len(set(ids)) == 30
    assert all(each.startswith("me-") for each in ids)


@pytest.mark.parametrize("applied_by", AppliedBy)
def test_a_request_is_not_to_be_carried_out_after_the_time_limit_of_its_call(applied_by):
    client = Client(applied_by)
    client.now = 5.0
    client.ask("a", limit=60.0)
    assert client.expiries == [65.0]


def test_a_retried_request_has_the_remaining_time():
    client = Client()
    client.ask("a", limit=60.0)
    client.receive(refused="a", throttle_ms=20_000)
    client.wait_until(20)
    assert client.expiries == [60.0, 60.0]


# What is admitted


def test_a_client_that_carries_out_mutations_itself_begins_at_once_and_reports_completion():
    client = Client(CLIENT)
    call = client.ask("ab")
    assert client.begun == []
    client.receive()
    assert client.begun == [(call, "ab")]
    assert [task.maybe_done for task in client.tasks] == [False, False]
    assert client.outcomes[call] == {}
    client.finish(call, "a")
    assert client.outcomes[call] == {"a": TopicResult("a")}
    client.finish(call, failed("b"))
    assert client.outcomes[call] == {"a": TopicResult("a"), "b": failed("b")}


def test_a_mutation_of_an_applier_is_complete_at_its_result():
    client = Client(APPLIER)
    call = client.ask("ab")
    client.receive()
    assert client.outcomes[call] == {}
    client.receive_result("a", failed("b"))
    assert client.outcomes[call] == {"a": TopicResult("a"), "b": failed("b")}
    assert client.begun == []


@pytest.mark.parametrize("applied_by", AppliedBy)
def test_admitted_topics_do_not_wait_for_refused_ones(applied_by):
    client = Client(applied_by)
    call = client.ask("abc")
    client.receive(refused="b", throttle_ms=5000)
    client.receive_result("a", "c")
    client.finish(call, *[task.name for task in client.tasks])
    assert client.outcomes[call] == {"a": TopicResult("a"), "c": TopicResult("c")}
    assert client.requested == ["abc"]


def test_a_throttle_does_not_delay_admitted_topics():
    """A permissive decision is such a case: everything is admitted with a throttle time."""
    client = Client(CLIENT)
    call = client.ask("ab")
    client.receive(throttle_ms=5000)
    assert client.begun == [(call, "ab")]


# What is refused


def test_only_refused_topics_are_retried_after_the_throttle_time():
    client = Client()
    client.ask("abc")
    client.receive(refused="ac", throttle_ms=5000)
    client.wait_until(4.999)
    assert client.requested == ["abc"]
    client.wait_until(5.0)
    assert client.requested == ["abc", "ac"]


def test_the_throttle_time_starts_with_the_decision_and_not_with_the_request():
    client = Client()
    client.ask("a")
    client.wait_until(2.0)
    client.receive(refused="a", throttle_ms=5000)
    client.wait_until(6.999)
    assert client.requested == ["a"]
    client.wait_until(7.0)
    assert client.requested == ["a", "a"]


def test_topics_refused_again_are_retried_again():
    """At 0 s a and b have to wait 5 s, then b another 10 s."""
    client = Client(finishes=True)
    call = client.ask("ab")
    client.receive(refused="ab", throttle_ms=5000)
    client.wait_until(5.0)
    client.receive(refused="b", throttle_ms=10_000)
    client.wait_until(14.999)
    assert client.requested == ["ab", "ab"]
    client.wait_until(15.0)
    client.receive()
    assert client.requested == ["ab", "ab", "b"]
    assert client.outcomes[call] == {"a": TopicResult("a"), "b": TopicResult("b")}


def test_topics_refused_without_a_throttle_time_are_retried_at_once():
    client = Client()
    client.ask("ab")
    client.receive(refused="b")
    assert client.requested == ["ab", "b"]


def test_without_retries_refused_topics_fail_at_once_with_the_throttle_time():
    client = Client(finishes=True)
    call = client.ask("abc", retry_on_quota_violation=False)
    client.receive(refused="ac", throttle_ms=5000)
    assert client.outcomes[call] == {"a": Throttled("a", 5000), "b": TopicResult("b"), "c": Throttled("c", 5000)}
    client.wait_until(100.0)
    assert client.requested == ["abc"]


def test_a_refused_topic_fails_with_the_decision_that_refused_it_last():
    client = Client()
    call = client.ask("a", limit=60.0)
    client.receive(refused="a", throttle_ms=5000, decision_id="mutation-requests-0-7", retry_at=5000)
    client.wait_until(5.0)
    client.receive(refused="a", throttle_ms=70_000, decision_id="mutation-requests-0-8", retry_at=75_000)
    client.wait_until(60.0)
    assert client.refusals[call] == {"a": Refusal("mutation-requests-0-8", 75_000)}


def test_a_topic_that_was_never_requested_fails_without_a_decision():
    client = muted(90)
    call = client.ask("a", limit=60.0)
    client.wait_until(60.0)
    assert client.refusals[call] == {"a": None}


@pytest.mark.parametrize("now", [0.3, 1.1, 7.7, 100.1, 12_345.678])
@pytest.mark.parametrize("throttle_ms", [1, 100, 1001, 12_000])
def test_the_reported_throttle_time_equals_that_of_the_decision_to_the_millisecond(now, throttle_ms):
    client = Client()
    client.wait_until(now)
    call = client.ask("a", retry_on_quota_violation=False)
    client.receive(refused="a", throttle_ms=throttle_ms)
    assert client.outcomes[call] == {"a": Throttled("a", throttle_ms)}


class Decider:
    """The real one, with a bucket: it answers at once, on its own clock."""

    def __init__(self, rate, window):
        self.bucket, self.limit, self.window = None, Limit(Quota(rate), BEGINNING), window

    def answer(self, client):
        resolution = Resolution(Tags("alice", ""), self.limit, QuotaEntity("alice"))
        requested = ResolvedRequest(record(None, timestamp=round(client.now * 1000)), client.sent[-1], resolution)
        self.bucket, [decided] = decide(self.bucket, [requested], TokenBucket(self.window))
        client.decide(decided)


def test_the_worked_example_of_kip_599():
    """Rate 5, burst 500: of eight topics of 80 seven are admitted, 500 - 560 = -60, and the last one 12 s later."""
    client, decider = Client(finishes=True), Decider(5.0, Window(num=100))
    call = Call(
        CallOptions(Operation.CREATE_TOPICS), [TopicMutation(name=name, partitions=80) for name in "abcdefgh"], 60.0
    )
    client.conversation.submit(call, 0.0)
    decider.answer(client)
    assert "".join(client.outcomes[call]) == "abcdefg"
    client.wait_until(11.999)
    assert client.requested == ["abcdefgh"]
    client.wait_until(12.0)
    assert client.requested == ["abcdefgh", "h"]
    decider.answer(client)
    assert client.outcomes[call]["h"] == TopicResult("h")


# The time limit


def test_at_the_time_limit_refused_topics_fail_with_the_remaining_throttle_time():
    """Refused at 10 s for 90 s: at 60 s 40 s remain."""
    client = Client()
    call = client.ask("ab", limit=60.0)
    client.wait_until(10.0)
    client.receive(refused="b", throttle_ms=90_000)
    client.finish(call, "a")
    client.wait_until(59.999)
    assert "b" not in client.outcomes[call]
    client.wait_until(60.0)
    assert client.outcomes[call] == {"a": TopicResult("a"), "b": Throttled("b", 40_000)}


def test_the_remaining_throttle_time_starts_when_the_failure_is_reported():
    client = Client()
    call = client.ask("a", limit=60.0)
    client.receive(refused="a", throttle_ms=90_000)
    client.oversleep(65.0)
    assert client.outcomes[call] == {"a": Throttled("a", 25_000)}


def test_topics_without_a_decision_fail_at_the_time_limit_as_undecided():
    client = Client()
    call = client.ask("ab", limit=60.0)
    client.wait_until(59.999)
    assert client.outcomes[call] == {}
    client.wait_until(60.0)
    assert client.outcomes[call] == {"a": NoAnswer("a", NO_DECISION), "b": NoAnswer("b", NO_DECISION)}


@pytest.mark.parametrize("applied_by", [CLIENT, APPLIER])
def test_admitted_topics_without_a_result_fail_at_the_time_limit_as_perhaps_done(applied_by):
    client = Client(applied_by)
    call = client.ask("ab", limit=60.0)
    client.receive()
    client.finish(call, "a")
    client.wait_until(60.0)
    assert client.outcomes[call] == {"a": TopicResult("a"), "b": NoAnswer("b", NO_RESULT)}


def test_topics_admitted_after_a_refusal_are_perhaps_done_and_not_throttled():
    client = Client(APPLIER)
    call = client.ask("a", limit=60.0)
    client.receive(refused="a", throttle_ms=5000)
    client.wait_until(5.0)
    client.receive()
    client.wait_until(60.0)
    assert client.outcomes[call] == {"a": NoAnswer("a", NO_RESULT)}


def test_topics_refused_and_not_decided_again_fail_as_refused():
    """Its throttle time is over since 5 s."""
    client = Client()
    call = client.ask("a", limit=60.0)
    client.receive(refused="a", throttle_ms=5000)
    client.wait_until(60.0)
    assert client.requested == ["a", "a"]
    assert client.outcomes[call] == {"a": Throttled("a", 0)}


def test_each_topic_of_a_call_fails_for_its_own_reason():
    client = Client(APPLIER)
    call = client.ask("abc", limit=60.0)
    client.receive(refused="c", throttle_ms=70_000)
    client.receive_result("a")
    other = client.ask("d", limit=30.0)
    client.wait_until(60.0)
    assert client.outcomes[call] == {
        "a": TopicResult("a"),
        "b": NoAnswer("b", NO_RESULT),
        "c": Throttled("c", 10_000),
    }
    assert client.outcomes[other] == {"d": Throttled("d", 40_000)}


def test_topics_held_back_by_a_throttle_fail_with_the_remaining_throttle_time():
    """The job does respond: muted until 90 s, and at 70 s 20 s remain."""
    client = muted(90)
    client.wait_until(10.0)
    call = client.ask("a", limit=60.0)
    client.wait_until(70.0)
    assert client.requested == []
    assert client.outcomes[call] == {"a": Throttled("a", 20_000)}


def test_failed_topics_are_not_requested_after_the_throttle():
    client = Client()
    client.ask("a", limit=60.0)
    client.receive(refused="a", throttle_ms=90_000)
    client.ask("b", limit=60.0)
    client.wait_until(200.0)
    assert client.requested == ["a"]


def test_a_throttle_that_is_over_at_the_time_limit_is_over_too_late():
    client = Client()
    call = client.ask("a", limit=60.0)
    client.receive(refused="a", throttle_ms=60_000)
    client.wait_until(60.0)
    assert client.requested == ["a"]
    assert client.outcomes[call] == {"a": Throttled("a", 0)}


def test_nothing_is_requested_after_the_time_limit_even_if_the_end_of_the_throttle_is_seen_late():
    """No call waits for the answer, and the quota would be charged."""
    client = Client()
    call = client.ask("a", limit=60.0)
    client.receive(refused="a", throttle_ms=59_990)
    client.oversleep(60.02)
    assert client.outcomes[call] == {"a": Throttled("a", 0)}
    assert client.requested == ["a"]


def test_a_call_whose_time_limit_has_passed_is_not_requested():
    client = Client()
    call = client.ask("a", limit=-0.5)
    assert client.requested == []
    client.wait_until(0.0)
    assert client.outcomes[call] == {"a": NoAnswer("a", NO_DECISION)}


def test_a_time_limit_ends_its_own_call_alone():
    client = Client(finishes=True)
    short, long = client.ask("a", limit=5.0), client.ask("a", limit=60.0)
    client.wait_until(5.0)
    client.receive(of=1)
    assert client.outcomes == {short: {"a": NoAnswer("a", NO_DECISION)}, long: {"a": TopicResult("a")}}


def test_decisions_after_the_time_limit_change_nothing():
    client = Client(APPLIER)
    unheard, admitted = client.ask("a", limit=5.0), client.ask("b", limit=5.0)
    client.receive(of=1)
    client.wait_until(5.0)
    failures = {unheard: {"a": NoAnswer("a", NO_DECISION)}, admitted: {"b": NoAnswer("b", NO_RESULT)}}
    assert client.outcomes == failures
    client.receive(of=0)
    client.receive_result("a", of=0)
    client.receive_result("b", of=1)
    client.finish(admitted, "b")
    client.wait_until(100.0)
    assert client.outcomes == failures
    assert (client.requested, client.begun) == (["a", "b"], [])


# Silence after a throttle


def throttled_by_a_permissive_decision():
    client = Client()
    client.ask("z")
    client.receive(throttle_ms=5000)
    return client


def throttled_by_a_partial_decision():
    client = Client()
    client.ask("yz", retry_on_quota_violation=False)
    client.receive(refused="z", throttle_ms=5000)
    return client


def throttled_by_a_refusal():
    client = Client()
    client.ask("z", retry_on_quota_violation=False)
    client.receive(refused="z", throttle_ms=5000)
    return client


def throttled_by_a_decision_on_what_could_not_be_sent():
    """It was sent after all."""
    client = Client()
    client.ask("z")
    client.conversation.on_rejection(client.sent[0].request_id, 19, "NOT_ENOUGH_REPLICAS", "")
    client.receive(throttle_ms=5000)
    return client


@pytest.mark.parametrize(
    "throttled",
    [
        throttled_by_a_permissive_decision,
        throttled_by_a_partial_decision,
        throttled_by_a_refusal,
        throttled_by_a_decision_on_what_could_not_be_sent,
    ],
)
def test_nothing_is_sent_during_a_throttle(throttled):
    client = throttled()
    client.sent.clear()
    client.ask("a")
    client.wait_until(2.0)
    client.ask("b")
    client.wait_until(4.999)
    assert client.requested == []
    client.wait_until(5.0)
    assert client.requested == ["a", "b"]


def test_the_decision_on_a_failed_call_throttles_later_calls():
    client = Client()
    client.ask("z", limit=5.0)
    client.wait_until(10.0)
    client.receive(throttle_ms=5000)
    client.ask("a")
    client.wait_until(14.999)
    assert client.requested == ["z"]
    client.wait_until(15.0)
    assert client.requested == ["z", "a"]


def test_a_throttle_applies_to_retries_of_another_call():
    """One is refused for 5 s, and at 3 s the other is throttled until 9 s."""
    client = Client()
    client.ask("a")
    client.ask("b")
    client.receive(of=0, refused="a", throttle_ms=5000)
    client.wait_until(3.0)
    client.receive(of=1, throttle_ms=6000)
    client.wait_until(8.999)
    assert client.requested == ["a", "b"]
    client.wait_until(9.0)
    assert client.requested == ["a", "b", "a"]


@pytest.mark.parametrize("times", [(9000, 2000), (2000, 9000)])
def test_the_longer_of_two_throttles_counts(times):
    client = Client()
    client.ask("a")
    client.ask("b")
    for number, throttle_ms in enumerate(times):
        client.receive(of=number, throttle_ms=throttle_ms)
    client.ask("c")
    client.wait_until(8.999)
    assert client.requested == ["a", "b"]
    client.wait_until(9.0)
    assert client.requested == ["a", "b", "c"]


def test_a_decision_without_a_throttle_does_not_end_one():
    client = Client()
    client.ask("a")
    client.ask("b")
    client.receive(of=0, throttle_ms=5000)
    client.receive(of=1)
    client.ask("c")
    client.wait_until(4.999)
    assert client.requested == ["a", "b"]


def test_all_waiting_requests_are_sent_after_the_throttle():
    client = Client()
    client.ask("ab")
    client.receive(refused="b", throttle_ms=5000)
    client.ask("c")
    client.ask("de")
    client.wait_until(5.0)
    assert client.requested == ["ab", "b", "c", "de"]
    client.wait_until(50.0)
    assert client.requested == ["ab", "b", "c", "de"]


def test_a_call_after_the_throttle_is_sent_even_if_due_requests_were_not_polled():
    client = muted(5)
    client.now = 5.0
    client.ask("a")
    assert client.requested == ["a"]


def test_the_end_of_a_throttle_is_reported_as_the_next_due_time():
    client = Client()
    assert client.conversation.next_at is None
    client.ask("a", limit=60.0)
    assert client.conversation.next_at == 60.0
    client.receive(refused="a", throttle_ms=5000)
    assert client.conversation.next_at == 5.0
    client.wait_until(5.0)
    assert client.conversation.next_at == 60.0


# Copies, strangers, and results before decisions


@pytest.mark.parametrize("applied_by", AppliedBy)
def test_a_duplicated_decision_counts_once(applied_by):
    client = Client(applied_by)
    call = client.ask("ab")
    for _ in range(2):
        client.receive(of=0, refused="b", throttle_ms=5000)
    assert "".join(task.name for task in client.tasks) == ("a" if applied_by is CLIENT else "")
    client.wait_until(5.0)
    assert client.requested == ["ab", "b"]
    client.receive(of=0, refused="b")
    assert client.requested == ["ab", "b"]
    assert client.outcomes[call] == {}


def test_a_duplicated_decision_does_not_throttle_again():
    """It is received at 0 s and again at 4 s, as after a crash of the job: its 5 s are over at 5 s."""
    client = Client(finishes=True)
    client.ask("a")
    client.receive(throttle_ms=5000)
    client.wait_until(4.0)
    client.receive(throttle_ms=5000)
    client.ask("b")
    client.wait_until(5.0)
    assert client.requested == ["a", "b"]


def test_a_duplicated_decision_on_a_failed_call_does_not_throttle_again():
    client = Client(finishes=True)
    client.ask("a", limit=1.0)
    client.wait_until(2.0)
    client.receive(throttle_ms=5000)
    client.wait_until(6.0)
    client.receive(throttle_ms=5000)
    client.ask("b")
    client.wait_until(7.0)
    assert client.requested == ["a", "b"]


def test_a_duplicated_result_counts_once():
    client = Client(APPLIER)
    call = client.ask("ab")
    client.receive(refused="b", throttle_ms=5000)
    for _ in range(2):
        client.receive_result(failed("a"), of=0)
    client.wait_until(5.0)
    client.receive()
    client.receive_result("a", of=0)
    assert client.outcomes[call] == {"a": failed("a")}
    client.receive_result("b")
    assert client.outcomes[call] == {"a": failed("a"), "b": TopicResult("b")}


@pytest.mark.parametrize("times", [1, 2])
def test_a_result_may_come_before_its_decision(times):
    client = Client(APPLIER)
    call = client.ask("abc")
    for _ in range(times):
        client.receive_result("a", failed("c"))
    client.receive(refused="b", throttle_ms=5000)
    assert client.outcomes[call] == {"a": TopicResult("a"), "c": failed("c")}
    client.wait_until(5.0)
    assert client.requested == ["abc", "b"]


def test_two_calls_for_a_topic_of_one_name_have_separate_results():
    client = Client(APPLIER)
    first, second = client.ask("a"), client.ask("a")
    client.receive(of=1)
    client.receive(of=0)
    client.receive_result("a", of=0)
    assert client.outcomes == {first: {"a": TopicResult("a")}}
    client.receive_result(failed("a"), of=1)
    assert client.outcomes[second] == {"a": failed("a")}


def test_answers_to_other_clients_are_skipped():
    """Another client's first request has the same number as ours."""
    client = Client(APPLIER)
    call = client.ask("a")
    theirs = msgspec.structs.replace(client.sent[0], request_id=client.sent[0].request_id.replace("me-", "you-"))
    client.conversation.on_decision(decision(theirs, "a", 30_000), 0.0)
    client.conversation.on_result(result(theirs, failed("a")))
    client.conversation.on_rejection(theirs.request_id, 42, "INVALID_REQUEST", "no request")
    assert client.outcomes[call] == {}
    client.ask("b")
    assert client.requested == ["a", "b"]
    client.receive(of=0)
    client.receive_result("a", of=0)
    assert client.outcomes[call] == {"a": TopicResult("a")}


# No decision


@pytest.mark.parametrize("applied_by", AppliedBy)
def test_a_client_never_proceeds_without_a_decision(applied_by):
    client = Client(applied_by)
    call = client.ask("a", limit=60.0)
    client.wait_until(100.0)
    assert client.begun == []
    assert client.outcomes[call] == {"a": NoAnswer("a", NO_DECISION)}


# Requests that will have no decision


def test_the_topics_of_a_request_that_is_rejected_fail_with_the_code():
    client = Client()
    call, other = client.ask("ab"), client.ask("c")
    client.conversation.on_rejection(client.sent[0].request_id, 42, "INVALID_REQUEST", "topics: too many")
    assert client.outcomes == {
        call: {name: TopicResult(name, 42, "INVALID_REQUEST", "topics: too many") for name in "ab"}
    }
    client.receive(of=1)
    client.finish(other, "c")
    assert client.outcomes[other] == {"c": TopicResult("c")}


def test_topics_rejected_in_a_retry_fail_alone():
    client = Client(finishes=True)
    call = client.ask("ab")
    client.receive(refused="b", throttle_ms=5000)
    client.wait_until(5.0)
    client.conversation.on_rejection(client.sent[1].request_id, -192, "_MSG_TIMED_OUT", "not delivered")
    assert client.outcomes[call] == {
        "a": TopicResult("a"),
        "b": TopicResult("b", -192, "_MSG_TIMED_OUT", "not delivered"),
    }


@pytest.mark.parametrize("applied_by", [CLIENT, APPLIER])
def test_a_rejection_after_the_decision_changes_nothing(applied_by):
    client = Client(applied_by)
    call = client.ask("a")
    client.receive()
    client.conversation.on_rejection(client.sent[0].request_id, 42, "INVALID_REQUEST", "")
    assert client.outcomes[call] == {}


def test_a_decision_after_the_rejection_changes_nothing():
    client = Client(CLIENT)
    call = client.ask("ab")
    for _ in range(2):
        client.conversation.on_rejection(client.sent[0].request_id, 42, "INVALID_REQUEST", "")
    client.receive(refused="b")
    assert len(client.outcomes[call]) == 2
    assert (client.requested, client.begun) == (["ab"], [])


# The end


def test_closing_settles_all_open_calls():
    """Refused for 50 s at 0 s, and ended at 20 s."""
    client = Client(APPLIER)
    undecided = client.ask("u", limit=60.0)
    partly = client.ask("ar", limit=60.0)
    client.receive(refused="r", throttle_ms=50_000)
    waiting = client.ask("w", limit=60.0)
    client.wait_until(20.0)
    client.end()
    assert client.outcomes == {
        undecided: {"u": NoAnswer("u", NO_DECISION)},
        partly: {"a": NoAnswer("a", NO_RESULT), "r": Throttled("r", 30_000)},
        waiting: {"w": Throttled("w", 30_000)},
    }
    assert client.remembered == []
    assert client.conversation.next_at is None


@pytest.mark.parametrize("applied_by", AppliedBy)
def test_after_closing_nothing_is_sent_or_carried_out(applied_by):
    client = Client(applied_by)
    for names in ("ab", "cd"):
        client.ask(names)
    client.receive(of=0, refused="b", throttle_ms=5000)
    client.ask("e")
    sent, begun = list(client.sent), list(client.begun)
    client.end()
    client.end()
    client.receive(of=1, refused="d")
    client.receive_result("a", of=0)
    client.conversation.on_rejection(client.sent[1].request_id, 42, "INVALID_REQUEST", "")
    client.oversleep(1000.0)
    assert (client.sent, client.begun) == (sent, begun)
    assert client.remembered == []


def test_a_call_after_closing_is_not_sent_and_fails_at_once():
    """No call would ever handle its time limit."""
    client = Client()
    client.end()
    call = client.ask("a")
    assert client.requested == []
    assert "".join(client.outcomes[call]) == "a"


# What is remembered


def refused_and_then_done(client):
    call = client.ask("ab")
    client.receive(refused="b", throttle_ms=5000)
    client.receive_result("a")
    client.wait_until(5.0)
    client.receive_result("b")
    client.receive()
    client.finish(call, "a", "b")


def refused_for_good(client):
    call = client.ask("ab", retry_on_quota_violation=False)
    client.receive(refused="b", throttle_ms=5000)
    client.receive_result("a")
    client.finish(call, "a")


def never_decided(client):
    client.ask("ab")
    client.wait_until(60.0)


def decided_too_late(client):
    client.ask("ab")
    client.receive_result("a")
    client.wait_until(60.0)
    client.receive_result("a")
    client.receive(refused="b", throttle_ms=5000)
    client.wait_until(70.0)


def refused_until_the_time_limit(client):
    client.ask("ab")
    for moment in (20.0, 40.0, 60.0):
        client.receive(refused="ab", throttle_ms=20_000)
        client.wait_until(moment)


def never_sent(client):
    client.ask("z", retry_on_quota_violation=False)
    client.receive(refused="z", throttle_ms=90_000)
    client.ask("ab")
    client.wait_until(60.0)


def rejected(client):
    client.ask("ab")
    client.conversation.on_rejection(client.sent[0].request_id, 42, "INVALID_REQUEST", "")


@pytest.mark.parametrize("applied_by", AppliedBy)
@pytest.mark.parametrize(
    "ended",
    [
        refused_and_then_done,
        refused_for_good,
        never_decided,
        decided_too_late,
        refused_until_the_time_limit,
        never_sent,
        rejected,
    ],
)
def test_ended_calls_are_forgotten(applied_by, ended):
    client = Client(applied_by)
    ended(client)
    assert client.remembered == []
    client.wait_until(200.0)
    assert client.conversation.next_at is None


def test_a_request_rejected_after_its_result_is_forgotten():
    """This happens if too few replicas had it when it was written."""
    client = Client(APPLIER)
    client.ask("ab")
    client.receive_result("a", "b")
    client.conversation.on_rejection(client.sent[0].request_id, 20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "")
    assert client.remembered == []


# Any order of events


quarters = st.integers(0, 40).map(lambda number: number / 4)
indices = st.integers(0, 5)


class Witness(Client):
    """Compares every action of a client with the answers that it got. Each topic has a unique name."""

    def __init__(self, applied_by):
        super().__init__(applied_by)
        self.applied_by = applied_by
        self.calls, self.requests, self.decisions, self.received, self.applied = {}, {}, {}, set(), set()
        self.state, self.request_of, self.refused, self.expected_results = {}, {}, {}, defaultdict(list)
        self.muted_until = float("-inf")  # by the decisions received
        self.has_ended = False

    @property
    def unsettled(self):
        return [name for name, call in self.calls.items() if name not in self.outcomes[call]]

    def names(self, request):
        return [topic.name for topic in request.topics]

    def is_open(self, request):
        """Return whether a decision on it is still expected."""
        unsettled = set(self.names(request)).intersection(self.unsettled)
        return any(
            self.request_of[name] == request.request_id and self.state[name] == "requested" for name in unsettled
        )

    def unconfirmed(self, request):
        """Return the admitted topics that wait for a result."""
        return [name for name in self.names(request) if name in self.unsettled and self.state[name] == "admitted"]

    def send(self, request, until):
        super().send(request, until)
        assert not self.has_ended
        assert self.now >= self.muted_until, "a request was sent before the throttle time was over"
        [call] = {self.calls[name] for name in self.names(request)}
        assert request.request_id not in self.requests
        assert (request.user, request.client_id) == ("alice", "app")
        assert request.validate_only == call.options.validate_only
        assert self.now < call.deadline
        assert request.apply == (self.applied_by is APPLIER)
        assert until == call.deadline
        for name in self.names(request):
            assert self.state[name] == "waiting"
            assert name in self.unsettled
            self.state[name], self.request_of[name] = "requested", request.request_id
        self.requests[request.request_id] = request, self.now

    def carry_out(self, call, tasks):
        super().carry_out(call, tasks)
        assert not self.has_ended
        for task in tasks:
            assert self.calls[task.name] is call
            assert task.validate_only == call.options.validate_only
            assert self.applied_by is CLIENT
            assert self.state[task.name] == "admitted"
            assert not task.maybe_done
            self.state[task.name] = "begun"

    def settle(self, call, topic, outcome):
        super().settle(call, topic, outcome)
        name, state = topic.name, self.state[topic.name]
        match outcome:
            case TopicResult():
                assert outcome in self.expected_results[name]
                return
            case Throttled():
                assert name in self.refused or state == "waiting"
                shortest, longest = self.refused.get(name, 0), max(self.muted_until, self.refused.get(name, 0))
                assert max(0, shortest - self.now) <= outcome.throttle_time_ms / 1000 <= max(0, longest - self.now)
                assert state in {"waiting", "requested"}
            case NoAnswer(wait=Wait.DECISION):
                assert state == "requested"
                assert name not in self.refused
            case NoAnswer(wait=Wait.RESULT):
                assert state in {"admitted", "begun"}
        is_final = isinstance(outcome, Throttled) and not call.options.retry_on_quota_violation
        assert is_final or self.has_ended or self.now >= call.deadline


class AnyOrderOfEvents(RuleBasedStateMachine):
    """Each topic is settled once and in time, nothing is sent while it is muted, and nothing waits longer than that."""

    @initialize(applied_by=st.sampled_from(AppliedBy), ends=st.booleans())
    def begin(self, applied_by, ends):
        self.client, self.ends = Witness(applied_by), ends

    def one_of_the_requests(self, index):
        requests = list(self.client.requests.values())
        return requests[-1 - index % len(requests)][0]

    def decision_on(self, request, refusals, throttle_seconds):
        """Return the decision on a request, which is always the same."""
        refused = [name for number, name in enumerate(self.client.names(request)) if refusals >> number & 1]
        return self.client.decisions.setdefault(
            request.request_id, decision(request, refused, round(throttle_seconds * 1000))
        )

    @rule(count=st.integers(1, 3), limit=quarters, retry=st.booleans(), validate_only=st.booleans())
    def ask(self, count, limit, retry, validate_only):
        client, before = self.client, len(self.client.sent)
        names = [f"topic-{len(client.calls) + number}" for number in range(count)]
        asking = CallOptions(Operation.CREATE_TOPICS, validate_only, retry_on_quota_violation=retry)
        call = Call(asking, [TopicMutation(name=name, partitions=1) for name in names], client.now + 0.25 + limit)
        client.calls |= dict.fromkeys(names, call)
        client.state |= dict.fromkeys(names, "waiting")
        client.conversation.submit(call, client.now)
        assert len(client.sent) <= before + 1
        assert client.now < client.muted_until or client.names(client.sent[-1]) == names

    @precondition(lambda self: self.client.requests)
    @rule(index=indices, refusals=st.integers(0, 7), throttle_seconds=quarters)
    def decide(self, index, refusals, throttle_seconds):
        """Deliver the first copy of a decision or another one, also of ended calls."""
        client, request = self.client, self.one_of_the_requests(index)
        if client.decisions.get(request.request_id, ...) is None:
            return  # it was rejected
        decided = self.decision_on(request, refusals, throttle_seconds)
        throttled_until = client.now + decided.throttle_time_ms / 1000
        if request.request_id not in client.received:
            client.received.add(request.request_id)
            client.muted_until = max(client.muted_until, throttled_until)
            if client.is_open(request):
                for topic in decided.topics:
                    if topic.error_code:
                        client.state[topic.name], client.refused[topic.name] = "waiting", throttled_until
                    elif topic.name in client.unsettled:
                        client.state[topic.name] = "admitted"
                        client.refused.pop(topic.name, None)
        client.conversation.on_decision(decided, client.now)
        if request.request_id in client.applied:
            assert client.unconfirmed(request) == []
        retried = [name for name in client.unsettled if client.state[name] == "waiting"]
        assert all(client.calls[name].options.retry_on_quota_violation for name in retried if name in client.refused)

    @precondition(lambda self: self.client.requests and self.client.applied_by is APPLIER)
    @rule(index=indices, refusals=st.integers(0, 7), throttle_seconds=quarters, failures=st.integers(0, 7))
    def apply(self, index, refusals, throttle_seconds, failures):
        """Deliver the result of a decision that the client may have received or not, or of an earlier one."""
        client, request = self.client, self.one_of_the_requests(index)
        if client.decisions.get(request.request_id, ...) is None:
            return
        decided = self.decision_on(request, refusals, throttle_seconds)
        admitted = [topic.name for topic in decided.topics if not topic.error_code]
        results = [
            failed(name) if failures >> number & 1 else TopicResult(name) for number, name in enumerate(admitted)
        ]
        for each in results:
            client.expected_results[each.name].append(each)
        if admitted:
            client.applied.add(request.request_id)
            client.conversation.on_result(result(request, *results))
            assert client.unconfirmed(request) == []

    @precondition(lambda self: self.client.begun)
    @rule(index=indices, count=st.integers(0, 3))
    def finish(self, index, count):
        """Topics that were carried out, or some of them, or those of before once more."""
        client = self.client
        task = client.tasks[-1 - index % len(client.tasks)]
        call = client.calls[task.name]
        tasks = [each for each in client.tasks if client.calls[each.name] is call][:count]
        for each in tasks:
            client.expected_results[each.name].append(TopicResult(each.name))
        client.finish(call, *[each.name for each in tasks])

    @precondition(lambda self: self.client.requests)
    @rule(index=indices)
    def reject(self, index):
        client, request = self.client, self.one_of_the_requests(index)
        if client.decisions.setdefault(request.request_id, None) is not None:
            return
        for name in client.names(request):
            client.expected_results[name].append(TopicResult(name, 42, "INVALID_REQUEST", "no"))
        was_open = client.is_open(request)
        client.conversation.on_rejection(request.request_id, 42, "INVALID_REQUEST", "no")
        assert not (was_open and set(client.names(request)).intersection(client.unsettled))

    @precondition(lambda self: self.client.requests)
    @rule(index=indices, throttle_seconds=quarters)
    def deliver_to_others(self, index, throttle_seconds):
        request = self.one_of_the_requests(index)
        theirs = msgspec.structs.replace(request, request_id=f"you-{request.request_id}")
        names = self.client.names(request)
        self.client.conversation.on_decision(
            decision(theirs, names[:1], round(throttle_seconds * 1000)), self.client.now
        )
        self.client.conversation.on_result(result(theirs, *names))
        self.client.conversation.on_rejection(theirs.request_id, 42, "INVALID_REQUEST", "no")

    @rule(seconds=quarters, late=st.booleans())
    def wait(self, seconds, late):
        client = self.client
        (client.oversleep if late else client.wait_until)(client.now + seconds)
        assert all(client.calls[name].deadline > client.now for name in client.unsettled)
        if client.now >= client.muted_until:
            assert "waiting" not in {client.state[name] for name in client.unsettled}

    @rule(seconds=quarters)
    def let_time_pass(self, seconds):
        """Let time pass without a poll of due requests."""
        self.client.now += seconds

    @invariant()
    def nothing_is_remembered_of_calls_that_have_ended(self):
        assert self.client.unsettled or not self.client.remembered

    @invariant()
    def the_loop_comes_back_in_time(self):
        deadlines = [self.client.calls[name].deadline for name in self.client.unsettled]
        assert not deadlines or self.client.conversation.next_at <= min(deadlines)

    def teardown(self):
        client = self.client
        if self.ends:
            client.has_ended = True
            client.end()
        else:
            client.wait_until(client.now + 20)
            assert client.remembered == []
        assert client.unsettled == []
        assert client.conversation.next_at is None
        sent, begun = len(client.sent), len(client.begun)
        for request_id, decided in client.decisions.items():
            if decided is not None:
                request, _ = client.requests[request_id]
                client.conversation.on_result(result(request, *client.names(request)))
                client.conversation.on_decision(decided, client.now)
        client.wait_until(client.now + 1000)
        assert (len(client.sent), len(client.begun)) == (sent, begun)


TestAnyOrderOfEvents = AnyOrderOfEvents.TestCase


@pytest.mark.parametrize("somebody", [{"user": "mallory"}, {"client_id": "other"}])
def test_a_decision_for_another_user_with_the_same_id_is_ignored(somebody):
    """It neither mutes nor completes anything; the client's own answer still counts."""
    client = Client(APPLIER)
    call = client.ask("a")
    (request,) = client.sent
    client.conversation.on_decision(msgspec.structs.replace(decision(request, "a", 99_000), **somebody), client.now)
    client.conversation.on_result(msgspec.structs.replace(result(request, failed("a")), **somebody))
    assert client.outcomes[call] == {}
    client.ask("b")
    assert client.requested == ["a", "b"]
    client.receive(of=0)
    client.receive_result("a", of=0)
    assert client.outcomes[call] == {"a": TopicResult("a")}


def test_a_dead_letter_of_another_users_topic_is_ignored():
    """Its value is untrusted; even truncated, it begins with the client's own id."""
    letter = DeadLetter(error="e", value='{"request_id":"me-1","us', timestamp=None, source=Source("r.alice", 0, 7))
    assert rejected_id(letter, "r.alice") == "me-1"
    assert rejected_id(letter, "r.bob") is None
    assert rejected_id(msgspec.structs.replace(letter, value=None), "r.alice") is None
