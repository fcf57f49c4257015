"""Requests for decisions: each answer reaches all who wait for it, once, and nobody else."""

import asyncio
import time
from contextlib import suppress
from types import SimpleNamespace

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException

from quota.errors import BadInput, BadRecord
from quota.kafka.awaited_decisions import AwaitedDecisions
from quota.kafka.requests_and_answers import ReceivedAnswer, rejected_id
from quota.records.dead_letter import DeadLetter, read_dead_letter
from quota.records.decision import Withdrawal, read_decision
from quota.records.decision_request import DecisionReply, DecisionRequest
from quota.records.record import Source
from quota.records.request import Mode, MutationRequest, Operation, TopicMutation
from quota.settings.sections import TopicSettings
from tests.support.malformed import all_malformed
from tests.support.virtual_time import VirtualLoop
from tests.unit.quota.gateway.play import decision_on

REQUEST = MutationRequest("", Operation.CREATE_TOPICS, 7, [TopicMutation("t", 3)], user="alice", apply=False)
UNDELIVERED = KafkaError._MSG_TIMED_OUT  # noqa: SLF001
INVALID = KafkaError.INVALID_REQUEST


class Asker:
    """Requests decisions, with a writer that only records."""

    def __init__(self, loop, topics={}, **options):  # noqa: B006 read only
        self.loop, self.error = loop, None
        self.sent, self.delivered, self.taken, self.withdrawn, self.any = [], [], [], [], []
        self.decisions = AwaitedDecisions(
            self,
            None,
            TopicSettings(**topics),
            "me-",
            lambda _, seconds: self.taken.append(seconds),
            on_any=lambda decision, age_ms: self.any.append((decision.request_id, age_ms)),
            **options,
        )

    def send(self, request, on_delivery):
        if request.withdraws:
            self.withdrawn.append(request)
        else:
            self.sent.append(request)
            self.delivered.append(on_delivery)
        if self.error is not None:
            raise self.error

    def ask(self, content=b"", seconds=60, *, once=False):
        return self.run(self.decisions.request, DecisionRequest(REQUEST, round(seconds * 1000), content, once))

    def decide(self, number=-1, decision_age_ms=70, **changes):
        """Receive the decision on the nth request."""
        request = self.sent[number]
        decision = msgspec.structs.replace(decision_on(request), **{"request_id": request.request_id, **changes})
        self.run(self.decisions.receive, ReceivedAnswer(decision, decision.timestamp + decision_age_ms))

    def receive_dead_letter(self, topic="mutation-requests"):
        value = msgspec.json.encode(self.sent[-1]).decode()
        letter = DeadLetter(error="topics: too many", value=value, timestamp=1, source=Source(topic, 0, 0))
        self.run(self.decisions.receive, ReceivedAnswer(letter, 1))

    def run(self, action, *args, **options):
        async def act():
            return action(*args, **options)

        result = self.loop.run_until_complete(act())
        self.loop.settle()
        return result


@pytest.fixture
def asker():
    loop = VirtualLoop()
    yield Asker(loop)
    loop.end()


@pytest.fixture
def limited():
    """One with a limit of ten seconds for decisions."""
    loop = VirtualLoop()
    yield Asker(loop, limit_ms=10_000)
    loop.end()


def ids(asker):
    return [request.request_id for request in asker.sent]


def test_a_decision_reaches_who_waits_for_it_with_its_age_and_the_time_that_it_took(asker):
    reply = asker.ask()
    assert len(asker.decisions) == 1
    asker.loop.wait_until(0.3)
    asker.decide(decision_age_ms=70)
    assert reply.result().decision.topics[0].name == "t"
    assert (reply.result().decision_age_ms, reply.result().waited_ms, reply.result().error_code) == (70, 300, 0)
    assert (asker.taken, len(asker.decisions)) == ([0.3], 0)
    assert all(timer.cancelled() for timer in asker.loop._scheduled)  # noqa: SLF001 a leak is visible only here


def test_a_decision_for_another_program_with_the_prefix_is_told_and_answers_nobody(asker):
    reply = asker.ask()
    asker.decide(request_id="me-of-another-gateway", decision_age_ms=90)
    assert (asker.any, reply.done(), asker.taken) == ([("me-of-another-gateway", 90)], False, [])
    asker.decide()
    assert asker.any[1:] == [(*ids(asker), 70)]


def test_any_records_of_others_are_answers_to_nobody_and_delay_no_answer(asker):
    reply, received = asker.ask(), 0
    for value in all_malformed():
        for read in (read_decision, read_dead_letter):
            with suppress(BadRecord):
                asker.decisions.receive(ReceivedAnswer(read(value), 1))
                received += 1
    assert (received > 200, reply.done(), asker.taken) == (True, False, [])
    asker.decide()
    assert reply.result().decision is not None


def test_ids_are_new_each_time_except_for_mutations_that_happen_once(asker):
    """Such an id follows from the content, so that a program that continues for another uses the same."""
    for once in (False, False, True):
        asker.ask(b"abc", once=once)
        asker.decide()
    asker.ask(b"abc", once=True)
    first, second, once, again = ids(asker)
    assert len({first, second, once}) == 3
    assert once == again == "me-616263"
    assert first.startswith("me-")


def test_two_that_wait_for_the_same_mutation_get_one_decision(asker):
    first, second, cancelled = (asker.ask(b"c", once=True) for _ in range(3))
    cancelled.cancel()
    asker.decide()
    assert len(asker.sent) == 1
    assert first.result() == second.result()
    assert first.result().decision is not None
    assert len(asker.taken) == 1


def test_without_an_answer_in_time_there_is_a_reply_without_a_decision(asker):
    short, long = asker.ask(b"c", 2, once=True), asker.ask(b"c", 3, once=True)
    asker.loop.wait_until(1.999)
    assert not short.done()
    asker.loop.wait_until(2)
    assert short.result() == DecisionReply(waited_ms=2000, job_silent_ms=2000, least_decision_ms=2000)
    assert (long.done(), len(asker.decisions)) == (False, 1)
    asker.loop.wait_until(3)
    assert long.result() == DecisionReply(waited_ms=3000, job_silent_ms=3000, least_decision_ms=3000)
    assert len(asker.decisions) == 0


def test_the_time_without_any_decision_counts_from_the_first_request_that_is_not_decided(asker):
    """Also a late decision shows that requests are decided; the time between requests does not count."""
    asker.ask(seconds=1)
    asker.loop.wait_until(1)
    asker.decide()
    asker.loop.wait_until(60)
    short = asker.ask(seconds=2)
    asker.loop.wait_until(62)
    later = asker.ask(seconds=7)
    asker.loop.wait_until(69)
    assert [future.result().job_silent_ms for future in (short, later)] == [2000, 9000]


def in_vain(least_decision_ms, job_silent_ms=0):
    return DecisionReply(job_silent_ms=job_silent_ms, least_decision_ms=least_decision_ms, was_requested=False)


def test_while_the_job_is_silent_nothing_is_written_but_now_and_then_what_costs_nothing(limited):
    """An outage of an hour with a new request each second is charged to those of its first ten seconds alone."""
    for number in range(10):
        limited.ask(str(number).encode(), 10)
        limited.loop.wait_until(number + 1)
    assert len(limited.sent) == 10
    for second in range(10, 3600):
        reply = limited.ask(str(second).encode(), 10)
        assert reply.result() == in_vain(second * 1000, second * 1000)
        limited.loop.wait_until(second + 1)
    assert [request.validate_only for request in limited.sent] == [False] * 10 + [True] * 359  # each ten seconds
    assert len(set(ids(limited))) == 10 + 359

    limited.decide()
    late = limited.ask(b"late", 10)
    assert (late.done(), len(limited.sent)) == (False, 370)
    limited.decide()
    assert late.result().decision is not None


@pytest.mark.parametrize(("takes", "own", "is_written"), [(2, 1.9, False), (2, 2, True), (0.01, 0.099, False)])
def test_a_request_with_less_time_than_decisions_take_is_not_written(limited, takes, own, is_written):
    """They take at least a tenth of a second."""
    limited.ask()
    limited.loop.wait_until(takes)
    limited.decide()
    short = limited.ask(seconds=own)
    assert (short.done(), len(limited.sent)) == (not is_written, 1 + is_written)
    if not is_written:
        assert short.result() == in_vain(max(takes * 1000, 100))


def test_what_is_known_of_the_time_of_decisions_is_tried_again_with_what_costs_nothing(limited):
    """Only another decision shows that they are quicker now; the time that passes does not."""
    limited.ask()
    limited.loop.wait_until(3)
    limited.decide()
    for at in (4, 60):
        limited.loop.wait_until(at)
        assert limited.ask(seconds=2).result().least_decision_ms == 3000
    assert [request.validate_only for request in limited.sent] == [False, True]
    limited.loop.wait_until(60.2)
    limited.decide()
    assert not limited.ask(seconds=2).done()
    assert limited.taken == [3, None]


def test_the_quickest_of_the_last_ten_decisions_counts(limited):
    """One that takes long by chance rejects nobody."""
    for takes in (0.3, *[0.9] * 9):
        limited.ask()
        limited.loop.wait_until(limited.loop.now + takes)
        limited.decide()
    assert not limited.ask(seconds=0.3).done()
    limited.loop.wait_until(limited.loop.now + 0.9)
    limited.decide()
    assert limited.ask(seconds=0.3).result() == in_vain(900)


def test_a_request_is_not_written_behind_one_that_has_waited_longer_than_it_may(limited):
    """Requests are decided in their order: the first attempt of a client that is in a hurry is charged, no other."""
    for number in range(30):
        reply = limited.ask(str(number).encode(), 0.12)
        limited.loop.wait_until(limited.loop.now + (0 if reply.done() else 0.12))
    assert (len(limited.sent), reply.result().least_decision_ms) == (1, 120)
    assert not limited.ask(seconds=10).done()


def test_a_decision_that_outlasted_a_silence_does_not_tell_how_long_decisions_take(limited):
    limited.ask(seconds=10)
    limited.loop.wait_until(25)
    assert limited.ask(seconds=10).done()
    limited.decide(0)
    assert not limited.ask(seconds=1).done()


LONG = 60 * 60 // 10


def check_others_are_decided(limited):
    """Check an hour of requests, one every ten seconds."""
    for number in range(LONG):
        limited.loop.wait_until(30 + 10 * number)
        valid = limited.ask(str(number).encode(), 5)
        limited.loop.wait_until(limited.loop.now + 0.2)
        limited.decide()
        assert valid.result().decision is not None


@pytest.mark.parametrize("leaves_after", [0, 0.1])
def test_a_request_that_is_rejected_after_its_client_has_left_is_no_silence(limited, leaves_after):
    """Its dead letter shows that the job decides; without it, that request would be tried again for ever."""
    invalid = limited.ask(b"invalid", leaves_after or 10)
    if not leaves_after:
        invalid.cancel()
    limited.loop.wait_until(0.5)
    limited.receive_dead_letter()
    check_others_are_decided(limited)


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("error", [UNDELIVERED, KafkaError._UNKNOWN_TOPIC])  # noqa: SLF001
def test_a_request_that_cannot_be_written_is_not_what_a_silent_job_is_tried_with(limited, error, leaves):
    """Its user has no topic, or no permission for it; others are decided."""
    failed = limited.ask(b"failed", 10)
    if leaves:
        failed.cancel()
        limited.loop.settle()
    limited.loop.wait_until(11)
    limited.delivered[0](KafkaError(error), None)
    limited.loop.settle()
    check_others_are_decided(limited)
    assert len(limited.sent) == 1 + LONG


def test_a_request_that_is_invalid_is_not_one_without_a_decision(asker):
    """It became a dead letter, or was too large for its topic; the time after it is no silence."""
    asker.ask()
    asker.receive_dead_letter()
    asker.loop.wait_until(60)
    asker.error = KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    assert asker.ask().result().is_invalid
    asker.error = None
    asker.loop.wait_until(120)
    reply = asker.ask(seconds=1)
    asker.loop.wait_until(121)
    assert reply.result().job_silent_ms == 1000


def test_a_late_decision_is_reported_once(asker):
    """Its copy is not, and neither is that of another user's request with the same id."""
    reply = asker.ask(seconds=1)
    asker.loop.wait_until(2)
    asker.decide(user="mallory")
    assert asker.taken == []
    asker.decide()
    asker.decide()
    assert (asker.taken, reply.result().decision) == ([None], None)


def test_an_undecided_mutation_is_requested_again_by_its_id(asker):
    """So a job that remembers requests charges it once; after a decision, the next is another request."""
    asker.ask(b"c", seconds=1)
    asker.loop.wait_until(2)
    asker.ask(b"c").cancel()
    asker.loop.settle()
    asker.decide()  # and nobody learns of it
    asker.ask(b"c")
    asker.decide()
    asker.ask(b"c")
    first, after_timeout, after_disconnect, later = ids(asker)
    assert first == after_timeout == after_disconnect != later


def test_who_cancels_waits_no_longer(asker):
    reply = asker.ask()
    asker.loop.call_soon(reply.cancel)
    asker.decide()  # at the same moment
    assert reply.cancelled()
    asker.taken.clear()
    asker.ask().cancel()
    asker.loop.settle()
    assert len(asker.decisions) == 0
    asker.decide()
    assert asker.taken == [None]


@pytest.mark.parametrize(("topic", "is_ours"), [("mutation-requests", True), ("elsewhere", False)])
def test_a_dead_letter_rejects_the_request_that_it_contains(asker, topic, is_ours):
    """One of another topic does not: another user may have copied the request."""
    reply = asker.ask()
    asker.receive_dead_letter(topic)
    assert reply.done() == is_ours
    assert not is_ours or reply.result() == DecisionReply(error_code=INVALID, error="topics: too many")


def test_a_dead_letter_is_recognized_even_if_it_is_truncated():
    letter = DeadLetter(error="e", value='{"request_id":"me-1","us', timestamp=None, source=Source("r.alice", 0, 7))
    assert rejected_id(letter, "r.alice") == "me-1"
    assert rejected_id(letter, "r.bob") is None
    assert rejected_id(msgspec.structs.replace(letter, value=None), "r.alice") is None


CHEAPER = decision_on(msgspec.structs.replace(REQUEST, topics=[TopicMutation("t", 1)])).topics


@pytest.mark.parametrize(
    "changes",
    [
        {"request_id": "you-1"},
        {"user": "mallory"},
        {"client_id": "another"},
        {"operation": Operation.DELETE_TOPICS},
        {"topics": []},
        {"validate_only": True},
        {"mode": Mode.PERMISSIVE},
        {"apply": True},
        {"topics": CHEAPER},
    ],
    ids=["id", "user", "client", "kind", "topics", "validate_only", "mode", "apply", "cost"],
)
def test_a_decision_on_another_request_is_delivered_to_nobody(asker, changes):
    """Others can choose any id for a request that costs less: the decision must be on the same content."""
    reply = asker.ask()
    asker.sent = [msgspec.structs.replace(asker.sent[0], request_id=changes.pop("request_id", ids(asker)[0]))]
    asker.decide(**changes)
    assert (reply.done(), asker.taken) == (False, [])


TOO_LARGE = (
    "the request of 1 topic is larger than its topic accepts (Broker: Message size too large); "
    "name fewer topics in one request"
)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (BadInput("no topic can be named after this user"), INVALID, "no topic can be named after this user"),
        (
            KafkaException(KafkaError(10)),
            INVALID,
            TOO_LARGE,
        ),
        (BufferError(), KafkaError._QUEUE_FULL, "Local: Queue full"),  # noqa: SLF001
    ],
)
def test_a_request_that_cannot_be_sent_is_rejected_with_the_reason(asker, error, code, message):
    """One that is too large is invalid."""
    asker.error = error
    rejected = asker.ask().result()
    assert (rejected.error_code, rejected.is_invalid) == (code, code == INVALID)
    assert rejected.error.endswith(message)


def test_a_request_that_is_not_delivered_may_still_be_answered(asker, caplog):
    """The reason is logged once."""
    replies = [asker.ask(), asker.ask()]
    for delivered in asker.delivered:
        delivered(KafkaError(UNDELIVERED), None)
    asker.loop.settle()
    assert not any(reply.done() for reply in replies)
    asker.decide()
    assert replies[1].result().decision is not None
    assert caplog.messages == ["the request cannot be written to its topic: Local: Message timed out"]


def test_a_request_that_failed_may_have_been_written(asker):
    """Its late decision is reported, and it is requested again by its id."""
    reply = asker.ask(b"c")
    asker.delivered[0](None, None)
    asker.delivered[0](KafkaError(KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND), None)
    asker.loop.settle()
    assert (reply.result().error_code, reply.result().is_invalid) == (20, False)
    asker.decide()
    assert asker.taken == [None]
    asker.ask(b"c")
    assert len(set(ids(asker))) == 1


def test_the_memory_of_undecided_requests_is_bounded(asker):
    """The latest 10,000 are remembered: earlier ones are new requests when they are requested again."""

    async def ask_all():
        return [asker.decisions.request(DecisionRequest(REQUEST, 1000, number.to_bytes(4))) for number in range(10_001)]

    asker.loop.run_until_complete(ask_all())
    asker.loop.wait_until(1)
    for number in (0, 10_000):
        asker.ask(number.to_bytes(4))
    assert (ids(asker)[-2] in ids(asker)[:-2], ids(asker)[-1] in ids(asker)[:-2]) == (False, True)


def test_the_thread_that_reads_answers_outlives_exceptions(caplog, monkeypatch):
    """One in an answer ends this answer, and one in reading is tried again."""
    monkeypatch.setattr("quota.kafka.awaited_decisions._RETRY_SECONDS", 0.01)
    sent, decided, taken, closed, logged = [], [], [], [], []

    def read(_):
        if not logged:
            logged.append("once")
            raise RuntimeError("cannot read")
        time.sleep(0.01)
        for request in sent[len(decided) :]:
            decided.append(request.request_id)
            yield ReceivedAnswer(msgspec.structs.replace(decision_on(request), request_id=request.request_id), 7)

    def on_decision(decision, _):
        taken.append(decision.request_id)
        if len(taken) == 1:
            raise RuntimeError("a bug")

    async def run():
        writer = SimpleNamespace(
            poll=lambda: None, flush=lambda _: None, send=lambda request, **_: sent.append(request)
        )
        reader = SimpleNamespace(read=read, close=lambda: closed.append(True))
        decisions = AwaitedDecisions(writer, reader, TopicSettings(), "me-", on_decision)
        decisions.start()
        asked = [decisions.request(DecisionRequest(REQUEST, 10_000)) for _ in range(3)]
        replies = [await asyncio.wait_for(reply, 10) for reply in asked[1:]]
        decisions.close()
        return replies

    replies = asyncio.run(run())
    assert (taken, closed) == ([request.request_id for request in sent], [True])
    assert len(taken) == 3
    assert all(reply.decision for reply in replies)
    assert "cannot read decisions, retrying" in caplog.text


def withdrawn(asker):
    return [request.request_id for request in asker.withdrawn]


@pytest.mark.parametrize("leaves", [True, False])
def test_a_request_that_nobody_waits_for_any_longer_is_withdrawn_once(asker, leaves):
    """Also if its last client leaves. Its late decision answers nobody, and the next attempt is charged."""
    first, second = asker.ask(b"c", 1, once=True), asker.ask(b"c", 2, once=True)
    first.cancel()
    asker.loop.wait_until(1.5)
    assert asker.withdrawn == []
    if leaves:
        second.cancel()
    asker.loop.wait_until(2)
    (request,) = asker.sent
    assert asker.withdrawn == [
        msgspec.structs.replace(request, validate_only=True, withdraws=True),
    ]
    retry = asker.ask(b"c", 5, once=True)
    asker.decide(0)
    asker.decide(0, validate_only=True, withdraws=Withdrawal("mutation-requests-0-7", 3.0))
    assert (retry.done(), len(set(ids(asker)))) == (False, 1)
    asker.decide(1)
    assert retry.result().decision is not None
    assert len(asker.withdrawn) == 1


@pytest.mark.parametrize("error", [BufferError("full"), KafkaException(KafkaError(7, "full"))])
def test_a_withdrawal_that_cannot_be_written_is_logged_once_and_holds_up_nothing(asker, caplog, error):
    replies = [asker.ask(seconds=1) for _ in range(3)]
    asker.error = error
    asker.loop.wait_until(2)
    assert [reply.result().error_code for reply in replies] == [0] * 3
    assert caplog.messages == ["a withdrawal cannot be written, so its request may be charged: full"]


def test_of_concurrent_requests_with_the_same_content_one_is_remembered(asker):
    """Otherwise those without a decision would add up for as long as the job does not run."""
    for round_ in range(3):
        for _ in range(5):
            asker.ask(b"c", 1)
        asker.loop.wait_until(2 * round_ + 2)
    assert len(asker.decisions._undecided.awaited) == 1  # noqa: SLF001 a leak is visible only here


def test_a_request_that_may_have_been_written_although_that_failed_is_withdrawn(asker):
    asker.ask()
    asker.delivered[0](KafkaError(KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND), None)
    asker.loop.settle()
    assert withdrawn(asker) == ids(asker)


def test_users_who_write_to_topics_of_their_own_withdraw_nothing():
    """A retry has the same id, and a decision on either attempt answers it."""
    loop = VirtualLoop()
    own = Asker(loop, {"identity": "topic"})
    own.ask(b"c", 1)
    loop.wait_until(2)
    retry = own.ask(b"c")
    own.decide(0)
    assert (retry.result().decision is not None, own.withdrawn) == (True, [])
    loop.end()


OTHERS = msgspec.structs.replace(REQUEST, request_id="me-others")
DELETED = msgspec.structs.replace(OTHERS, request_id="me-d", operation=Operation.DELETE_TOPICS)
COPY = msgspec.structs.replace(OTHERS, validate_only=True)


@pytest.mark.parametrize(
    ("seen", "is_same"),
    [
        ([OTHERS], True),
        ([DELETED, OTHERS], True),
        ([OTHERS, DELETED], False),
        ([OTHERS, OTHERS.withdrawal], True),  # which may give nothing back, because it was requested twice
        ([COPY], False),
        ([msgspec.structs.replace(OTHERS, user="bob")], False),
        ([msgspec.structs.replace(OTHERS, topics=[TopicMutation("t", 4)])], False),
    ],
)
@pytest.mark.parametrize("running", [True, False])
def test_a_creation_that_another_program_has_requested_has_its_id_as_long_as_it_may_not_have_happened(
    asker, seen, is_same, running
):
    """Another was killed, and its clients try again: it is known from the log, or from the decisions."""
    if running:
        asker.sent += seen
        for number, request in enumerate(seen):
            asker.decide(number, withdraws=Withdrawal() if request.withdraws else None)
        asker.sent.clear()
    else:
        asker.run(asker.decisions.recall, seen)
    asker.ask()
    asker.decide()
    asker.ask()
    assert [request_id == "me-others" for request_id in ids(asker)] == [is_same, False]


def test_a_programs_own_creations_are_new_each_time(asker):
    """Also a late one: it was withdrawn."""
    for seconds in (1, 5):
        asker.ask(seconds=seconds)
        asker.loop.wait_until(asker.loop.now + 2)
        asker.decide()
    asker.ask()
    assert len(set(ids(asker))) == 3
