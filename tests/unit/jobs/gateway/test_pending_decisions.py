"""Requests for decisions: each reply reaches all clients that wait for it, once."""

import asyncio

import msgspec
import pytest

from jobs.gateway.pending_decisions import PendingDecisions
from quota.errors import BadInput
from quota.gateway.mutations.mutate import DecisionRequest
from quota.gateway.stats import GatewayStats
from quota.kafka.requests import ReceivedAnswer
from quota.records.dead_letter import DeadLetter
from quota.records.record import Source
from quota.records.request import Mode, MutationRequest, Operation, TopicMutation
from quota.settings.sections import TopicSettings
from tests.unit.gateway.play import decision_on

LONG_MS = 60_000


class Asker:
    """A client that waits for verdicts, on an event loop of the test."""

    def __init__(self, send=None):
        self.sent = []
        self.stats = GatewayStats()
        self.decisions = PendingDecisions(send or self.sent.append, TopicSettings(), self.stats)
        self.verdicts = []
        self.received = asyncio.Event()

    def tell(self, verdict):
        self.verdicts.append(verdict)
        self.received.set()

    def ask(self, content=b"c", *, once=False, timeout_ms=LONG_MS, name="t"):
        request = MutationRequest("", Operation.CREATE_TOPICS, 7, [TopicMutation(name, 3)], user="alice", apply=False)
        self.decisions.request(DecisionRequest(request, once, content, timeout_ms), self.tell)

    def decide(self, number=-1, **changes):
        """Have the job decide the nth request that was sent."""
        request = self.sent[number]
        decision = decision_on(request)
        decision = msgspec.structs.replace(decision, request_id=request.request_id, **changes)
        self.decisions.answer(ReceivedAnswer(decision, decision.timestamp + 70))

    async def until_received(self):
        await asyncio.wait_for(self.received.wait(), 30)
        self.received.clear()


@pytest.fixture
def play():
    """Return a function that runs a scene on an event loop, with an asker."""

    def _play(scene, **options):
        async def _run():
            asker = Asker(**options)
            await scene(asker)
            return asker

        return asyncio.run(_run())

    return _play


def test_a_decision_reaches_its_waiting_client(play):
    """The verdict has the time that it took; no client waits any longer."""

    async def scene(asker):
        asker.ask()
        assert len(asker.decisions) == 1
        asker.decide()

    asker = play(scene)
    (verdict,) = asker.verdicts
    assert (verdict.decision.topics[0].name, verdict.invalid, len(asker.decisions)) == ("t", "", 0)
    assert verdict.age_ms == 70
    assert ([count for _, count in asker.stats.decisions()][-1], asker.stats.undecided) == (1, 0)


def test_ids_are_new_each_time_except_for_mutations_that_happen_once(play):
    """Its id follows from its content, so that a gateway that continues for another uses the same."""

    async def scene(asker):
        for once in (False, False, True):
            asker.ask(b"abc", once=once)
            asker.decide()
        asker.ask(b"abc", once=True)

    first, second, once, again = (request.request_id for request in play(scene).sent)
    assert len({first, second, once}) == 3
    assert once == again == "gateway-616263"
    assert first.startswith("gateway-")


def test_two_clients_with_the_same_mutation_get_one_decision(play):
    """One request is sent."""

    async def scene(asker):
        asker.ask(once=True)
        other = []
        asker.decisions.request(DecisionRequest(asker.sent[0], True, b"c", LONG_MS), other.append)
        asker.decide()
        assert len(other) == 1

    asker = play(scene)
    assert (len(asker.sent), len(asker.verdicts)) == (1, 1)


def test_after_the_timeout_there_is_a_verdict_without_a_decision(play):
    """It is counted, and the time is reported."""

    async def scene(asker):
        asker.ask(timeout_ms=20)
        await asker.until_received()

    asker = play(scene)
    (verdict,) = asker.verdicts
    assert (verdict.decision, verdict.invalid) == (None, "")
    assert verdict.waited_ms >= 20
    assert (asker.stats.undecided, len(asker.decisions)) == (1, 0)


def test_a_late_decision_is_counted_once_and_delivered_to_no_client(play):
    """Its copy is not counted."""

    async def scene(asker):
        asker.ask(timeout_ms=1)
        await asker.until_received()
        asker.decide()
        asker.decide()

    asker = play(scene)
    assert (asker.stats.late, len(asker.verdicts)) == (1, 1)


def test_an_undecided_mutation_is_requested_again_by_its_id(play):
    """So a job that remembers requests charges it once; after a decision, the next is another request."""

    async def scene(asker):
        asker.ask(timeout_ms=1)
        await asker.until_received()
        asker.ask()
        asker.decide()
        asker.ask()

    first, again, later = (request.request_id for request in play(scene).sent)
    assert first == again != later


def test_a_disconnected_client_gets_no_verdict(play):
    """Other clients that wait for the same verdict get it."""

    async def scene(asker):
        asker.ask(once=True)
        other = []
        asker.decisions.request(DecisionRequest(asker.sent[0], True, b"c", LONG_MS), other.append)
        asker.decisions.forget(asker.tell)
        asker.decide()
        assert len(other) == 1
        asker.ask(b"d")
        asker.decisions.forget(asker.tell)
        assert len(asker.decisions) == 0
        asker.decide()

    assert play(scene).verdicts == []


def test_a_dead_letter_is_delivered_with_its_reason(play):
    """It is matched by the request that it contains."""

    async def scene(asker):
        asker.ask()
        asker.decisions.answer(ReceivedAnswer(dead_letter(asker.sent[0]), 1))

    (verdict,) = play(scene).verdicts
    assert (verdict.decision, verdict.invalid) == (None, "topics: too many")


def test_a_dead_letter_of_another_topic_is_delivered_to_no_client(play):
    """Another user may have copied the request."""

    async def scene(asker):
        asker.ask()
        asker.decisions.answer(ReceivedAnswer(dead_letter(asker.sent[0], topic="elsewhere"), 1))

    assert play(scene).verdicts == []


def dead_letter(request, topic="mutation-requests"):
    value = msgspec.json.encode(request).decode()
    return DeadLetter(error="topics: too many", value=value, timestamp=1, source=Source(topic, 0, 0))


CHEAPER = decision_on(MutationRequest("", Operation.CREATE_TOPICS, 7, [TopicMutation("t", 1)])).topics


@pytest.mark.parametrize(
    "changes",
    [
        {"user": "mallory"},
        {"client_id": "another"},
        {"operation": Operation.DELETE_TOPICS},
        {"topics": []},
        {"validate_only": True},
        {"mode": Mode.PERMISSIVE},
        {"apply": True},
        {"topics": CHEAPER},
    ],
    ids=["user", "client", "kind", "topics", "validate_only", "mode", "apply", "cost"],
)
def test_a_decision_on_another_request_with_the_same_id_is_delivered_to_no_client(play, changes):
    """Others can choose any id for a request without a cost: the decision must be on the same content."""

    async def scene(asker):
        asker.ask()
        asker.decide(**changes)

    asker = play(scene)
    assert asker.verdicts == []


def test_a_request_that_cannot_be_sent_is_rejected_with_the_reason(play):
    """The verdict does not come before `ask` has returned."""

    def send(_request):
        raise BadInput("no topic can be named after this user")

    async def scene(asker):
        asker.ask()
        assert asker.verdicts == []
        await asker.until_received()

    (verdict,) = play(scene, send=send).verdicts
    assert verdict.invalid == "no topic can be named after this user"


def test_the_memory_of_undecided_requests_is_bounded(play):
    """The latest 10,000 are remembered: earlier ones are new requests when they are requested again."""

    async def scene(asker):
        for number in range(10_001):
            asker.ask(number.to_bytes(4), timeout_ms=1)
        while asker.stats.undecided < 10_001:
            await asker.until_received()
        for number in (0, 10_000):
            asker.ask(number.to_bytes(4))

    sent = [request.request_id for request in play(scene).sent]
    assert (sent[-2] in sent[:-2], sent[-1] in sent[:-2]) == (False, True)


def test_a_mutation_of_a_disconnected_client_is_requested_again_by_its_id(play):
    """This happens if its broker restarts: the charge in the meantime is remembered under this id."""

    async def scene(asker):
        asker.ask()
        asker.decisions.forget(asker.tell)
        asker.decide()
        asker.ask()

    asker = play(scene)
    first, second = asker.sent
    assert first.request_id == second.request_id
    assert asker.stats.late == 1


def test_a_request_that_could_not_be_written_is_not_decided(play):
    """It is not an error of the request: `when_silent` applies."""

    async def scene(asker):
        asker.ask()
        asker.decisions.fail(asker.sent[0].request_id, "")

    (verdict,) = play(scene).verdicts
    assert (verdict.decision, verdict.invalid) == (None, "")
