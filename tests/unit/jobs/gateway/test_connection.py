"""A client's connection without sockets: reading, buffering and closing."""

import asyncio
import socket
import struct

import pytest

from jobs.gateway.buffers import limit_received
from quota.errors import BadInput
from quota.records.decision_request import DecisionReply
from quota.records.request import MutationRequest, Operation, TopicMutation
from tests.support.waiting import eventually
from tests.unit.jobs.gateway.scene import Scene
from tests.unit.quota.gateway.play import decision_on

pytestmark = pytest.mark.anyio


@pytest.fixture
def on(protocol):
    """A scene, which is played on the event loop of a test."""
    return Scene(protocol)


MANY = 200_000_000


@pytest.fixture
def crowd():
    """Have others buffer so much that all have to buffer less; the limits of all transports are set back."""

    def crowded(on):
        on.host.buffer(MANY)
        on.connection.limit_buffered()

    yield crowded
    limit_received(crowded=False)


def metadata(on):
    return on.play.frame(3, 12, {"topics": [], "allowAutoTopicCreation": False})


def creation(on, name="a"):
    topic = {"name": name, "numPartitions": 1, "replicationFactor": 1, "assignments": [], "configs": []}
    return on.play.frame(19, 7, {"topics": [topic], "timeoutMs": 30_000, "validateOnly": False})


def alteration(on):
    ops = [{"key": "controller_mutation_rate", "value": 5.0, "remove": False}]
    entries = [{"entity": [{"entityType": "user", "entityName": "alice"}], "ops": ops}]
    return on.play.frame(49, 1, {"entries": entries, "validateOnly": False})


async def test_the_broker_is_connected_at_the_first_request(on):
    """Nothing is read meanwhile; what has come is sent then, in order."""
    on.receive(b"\0\0")
    await on.turn()
    assert on.host.attempts == 0
    on.receive((metadata(on) + metadata(on))[2:])
    assert not on.client.reading
    await on.connect()
    assert on.client.reading
    on.serve()
    assert len(on.answers()) == 2


@pytest.mark.parametrize(
    "error", [OSError("no route"), UnicodeError("label empty or too long"), BadInput("the issuer's key is unusable")]
)
async def test_a_broker_that_cannot_be_reached_closes_the_connection(on, error):
    """The client tries again by itself."""
    on.host.error = error
    on.receive(metadata(on))
    await on.connect()
    assert on.client.closed
    assert on.play.context.stats.closed == {"broker": 1}


async def test_the_kernel_notices_on_both_sides_that_a_peer_has_vanished(on):
    """A muted client is not read from, so that nothing else would show it."""
    on.receive(metadata(on))
    await on.connect()
    for side, transport in ((on.connection, on.client), (on.broker_side(), on.host.broker)):
        with socket.create_server(("127.0.0.1", 0)) as own:
            transport.get_extra_info = {"socket": own}.get
            side.connection_made(transport)
            options = socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT
            assert own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert [own.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [60, 10, 3]


async def test_a_client_that_disconnects_during_the_connection_to_the_broker_leaves_nothing(on):
    """The attempt is given up."""
    on.receive(metadata(on))
    on.connection.connection_lost(None)
    await on.connect()
    assert on.host.broker is None
    assert on.host.gone == [on.connection]


async def test_a_broker_that_does_not_take_the_rest_is_disconnected(on, monkeypatch):
    """What a client sent before it left is kept for a time, also if the other side has ended TLS already."""
    monkeypatch.setattr("jobs.gateway.brokers._DELIVERY_SECONDS", 0.01)
    on.receive(metadata(on))
    await on.connect()
    on.host.broker.closed = True
    on.connection.connection_lost(None)
    assert not on.host.broker.aborted
    await eventually(lambda: on.host.broker.aborted)


async def test_a_client_that_does_not_read_is_not_read_from_and_neither_is_its_broker(on):
    """The gateway answers some requests itself: such answers would pile up."""
    on.receive(metadata(on))
    await on.connect()
    on.connection.pause_writing()
    assert (on.client.reading, on.host.broker.reading) == (False, False)
    on.connection.resume_writing()
    assert (on.client.reading, on.host.broker.reading) == (True, True)


async def test_a_client_that_stops_reading_holds_back_the_broker(on):
    """Its first byte is enough."""
    on.receive(metadata(on))
    on.connection.pause_writing()
    await on.connect()
    assert (on.client.reading, on.host.broker.reading) == (False, False)


async def test_a_waiting_client_is_read_up_to_64_kib_to_detect_its_end(on):
    """This lasts while a decision is pending; then its further bytes are processed."""
    on.receive(creation(on))
    await on.connect()
    on.serve()
    one = metadata(on)
    on.receive(one)
    assert on.connection.channel.is_waiting
    assert on.client.reading
    count = 64 * 1024 // len(one)
    on.receive(b"".join(metadata(on) for _ in range(count)))
    assert not on.client.reading
    await on.decide()
    on.serve()
    for channel in list(on.play.context.mutes.due(on.connection.now())):
        on.connection.run(channel.resume)
    for _ in range(5):
        on.serve()
    assert on.client.reading
    assert len(on.answers()) == count + 2


async def test_a_client_that_writes_without_end_and_reads_nothing_is_not_read_further(on):
    """A thousand requests are pending, and some are held."""
    on.receive(metadata(on))
    await on.connect()
    on.receive(b"".join(metadata(on) for _ in range(5000)))
    assert not on.client.reading
    on.serve()
    assert on.client.reading
    assert len(on.answers()) == 5001


async def test_a_client_that_disconnects_before_its_decision_is_forgotten(on, caplog):
    """The question, the channel and the broker's connection."""
    on.receive(creation(on))
    await on.connect()
    on.serve()
    on.connection.connection_lost(None)
    assert on.host.decisions.replies[0].cancelled()
    assert on.host.broker.closed
    await on.turn()
    assert caplog.messages == []
    on.serve()
    assert on.play.changes_seen() == []


async def test_what_a_client_waited_for_ends_as_soon_as_its_connection_is_closed(on):
    """TLS takes a while to close; a decision in this time would be charged, and not carried out."""
    on.receive(creation(on))
    await on.connect()
    on.serve()
    on.connection.close("broker_closed")
    assert on.host.decisions.replies[0].cancelled()
    on.connection.run(on.connection.channel.go_on, DecisionReply(decision_on(REQUEST)))  # as the timer of a pause does
    on.serve()
    assert on.play.changes_seen() == []


REQUEST = MutationRequest("", Operation.CREATE_TOPICS, 7, [TopicMutation("a", 1)])


@pytest.mark.parametrize(
    ("reply", "error", "muted_ms", "undecided"),
    [
        (DecisionReply(decision_on(REQUEST, throttle_ms=5000)), (0, ""), 5000, 0),
        (DecisionReply(error_code=42, error="topics: too many"), (42, "topics: too many"), 0, 0),
        (
            DecisionReply(error_code=29, error="it cannot be written"),
            (7, "no decision on this mutation, so nothing"),
            0,
            1,
        ),
        (DecisionReply(), (7, "no decision on this mutation in"), 0, 1),
    ],
    ids=["decision", "dead letter", "not written", "not in time"],
)
async def test_a_reply_reaches_the_client_and_the_counts(on, reply, error, muted_ms, undecided):
    """The request is for the client's own time limit of 30 s, of which a decision may take at most ten."""
    on.receive(creation(on))
    await on.connect()
    on.serve()
    [wanted] = on.host.decisions.requested
    assert (wanted.request.topics[0].name, wanted.timeout_ms) == ("a", 10_000)
    await on.decide(reply)
    on.serve()
    [answer] = on.answers()
    [topic] = answer["topics"]
    assert topic["errorCode"] == error[0]
    assert (topic["errorMessage"] or "").startswith(error[1])
    stats = on.play.context.stats
    assert (stats.muted_ms, stats.undecided) == (muted_ms, undecided)


NOT_ANSWERED = "the broker has closed its connection before it answered a request"
NOT_DECIDED = (
    "the broker has closed its connection after 3 s without data, while a request waited for a decision; its "
    "connections.max.idle.ms has to be longer than gateway.decision_timeout_seconds"
)


@pytest.mark.parametrize(
    ("request_of", "served", "reason"),
    [(metadata, True, None), (metadata, False, NOT_ANSWERED), (creation, True, NOT_DECIDED)],
    ids=["idle", "not answered", "not decided"],
)
async def test_a_broker_that_disconnects_closes_the_client(on, caplog, request_of, served, reason):
    """It finds out by itself whether the broker is back; the log has the reason if a request was not answered."""
    on.receive(request_of(on))
    await on.connect()
    if served:
        on.serve()
    on.connection.active_at -= 3
    on.broker_side().connection_lost(None)
    assert on.client.closed
    assert on.play.context.stats.closed == ({"broker_closed": 1} if reason else {})
    assert caplog.messages == ([f"closing the connection of 192.0.2.1: {reason}"] if reason else [])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "size"),
        (b"\0\0\0\x0c\x03\xe7\0\0\0\0\0\1\xff\xff\0\0", "not_offered"),
        (b"\0\0\0\x12\0\x13\0\x04\0\0\0\1\xff\xff\x7f\xff\xff\xff\0\0\0\0", "malformed"),
    ],
)
async def test_an_invalid_request_closes_the_connection_for_a_reason_that_is_counted_once(on, data, reason):
    """It never connects to the broker."""
    on.receive(data)
    await on.connect()
    assert on.client.closed
    assert on.host.broker is None
    assert on.play.context.stats.closed == {reason: 1}


def fail(*_):
    raise ZeroDivisionError


async def in_an_input(on):
    on.connection.run(fail, b"x")


async def in_the_connection_to_the_broker(on):
    on.host.error = ZeroDivisionError()
    on.receive(metadata(on))
    await on.connect()


async def in_a_decision(on):
    on.receive(creation(on))
    await on.connect()
    on.serve()
    on.host.decisions.replies[-1].set_exception(ZeroDivisionError())
    await on.turn()


async def in_the_quota_log(on):
    on.host.rates.alter = fail
    on.receive(alteration(on))
    await on.connect()
    on.serve()
    await on.turn()


async def in_a_certificate(on):
    on.host.user_of = fail
    on.open()


@pytest.mark.parametrize(
    "raised", [in_an_input, in_the_connection_to_the_broker, in_a_decision, in_the_quota_log, in_a_certificate]
)
async def test_an_internal_error_of_the_gateway_closes_one_connection(on, caplog, raised):
    """It is logged once, with its trace, and not raised; the client would wait for minutes."""
    await raised(on)
    assert on.client.closed
    assert on.play.context.stats.closed == {"internal": 1}
    assert caplog.messages == ["closing the connection of 192.0.2.1: an unexpected error"]
    assert "ZeroDivisionError" in caplog.text


async def test_a_pause_ends_by_itself(on):
    """A topic that brokers do not know yet is polled after a pause."""
    on.play.cluster.create("a", 1)
    on.play.cluster.unseen.add("a")
    on.receive(on.play.frame(20, 5, {"topicNames": ["a"], "timeoutMs": 1000}))
    await on.connect()
    on.serve()
    assert on.host.decisions.requested == []
    on.play.cluster.unseen.clear()
    while not on.host.decisions.requested:
        await asyncio.sleep(0.005)
        on.serve()


async def test_a_connection_with_an_endless_request_is_closed_when_all_connections_buffer_too_much(on, crowd):
    """Its bytes are released; a connection that holds little is not closed, nor one that does not grow."""
    on.receive(struct.pack(">ihhi", 1_000_000, 3, 12, 1))
    on.receive(bytes(60_000))
    crowd(on)
    on.receive(b"x")
    assert (on.client.is_closing(), on.host.buffers.total) == (False, MANY + 60_013)
    on.receive(bytes(10_000))
    assert on.client.is_closing()
    on.connection.connection_lost(None)
    assert on.host.buffers.total == MANY
    assert on.play.context.stats.closed == {"memory": 1}


async def test_a_waiting_client_is_read_less_far_when_all_connections_buffer_too_much(on, crowd):
    """It is read further once they buffer less."""
    on.receive(creation(on))
    await on.connect()
    on.serve()
    on.receive(b"".join(metadata(on) for _ in range(20_000 // len(metadata(on)))))
    assert (on.connection.channel.is_waiting, on.client.reading) == (True, True)
    crowd(on)
    assert not on.client.reading
    on.host.buffer(-MANY)
    on.connection.limit_buffered()
    assert on.client.reading


async def test_what_is_not_sent_to_either_side_is_counted_until_the_client_leaves(on):
    """So is what waits for the connection to the broker."""
    on.receive(metadata(on))
    assert on.host.buffers.total == len(metadata(on))
    await on.connect()
    on.client.unsent, on.host.broker.unsent = 300, 5000
    on.broker_side().data_received(b"\0\0\1")  # a part of a response
    assert on.host.buffers.total == 5303
    on.connection.connection_lost(None)
    assert on.host.buffers.total == 0


@pytest.mark.parametrize(
    ("endless", "reason"), [(True, "memory"), (False, "not_offered")], ids=["too much is held", "an unknown API"]
)
async def test_a_connection_is_closed_after_the_answers_in_flight(on, crowd, endless, reason):
    """What arrives after that releases its memory at once, and reaches no broker."""
    on.receive(metadata(on))
    await on.connect()
    crowd(on)
    begun = struct.pack(">ihhi", 1_000_000, 3, 12, 9) + bytes(70_000)
    on.receive(begun if endless else struct.pack(">ihhih", 12, 999, 0, 9, -1) + bytes(2))
    on.receive(b"more")
    assert (on.client.is_closing(), on.host.buffers.total, bytes(on.client.written)) == (False, MANY, b"")
    on.serve()
    assert on.client.is_closing()
    assert len(on.client.written) > 20
    assert on.play.keys_seen() == [3]
    assert on.play.context.stats.closed == {reason: 1}


async def test_a_client_that_leaves_during_a_pause_holds_nothing_any_more(on):
    """The topic is not known yet; the next request has arrived in part."""
    on.receive(on.play.frame(20, 6, {"topics": [{"name": None, "topicId": bytes([7] * 16)}], "timeoutMs": 30_000}))
    await on.connect()
    on.serve()
    on.receive(struct.pack(">ihhi", 1_000_000, 19, 7, 9) + bytes(50_000))
    assert on.host.buffers.total > 50_000
    on.connection.connection_lost(None)
    on.connection.run(on.connection.channel.go_on)  # as the timer does
    on.connection.from_broker(b"late")
    assert on.host.buffers.total == 0


async def test_a_request_that_drips_in_is_noticed_and_requests_one_after_the_other_are_not(on, monkeypatch):
    """The time counts from the first byte of a request, and begins anew with the next one."""
    on.receive(metadata(on))
    await on.connect()
    on.serve()
    frame, seen = metadata(on), []
    for at, data in ((110.0, frame[:6]), (150.0, frame[6:9]), (160.0, frame[9:] + frame[:8]), (170.0, frame[8:])):
        monkeypatch.setattr("jobs.gateway.connection.time.monotonic", lambda at=at: at)
        on.receive(data)
        seen.append((on.connection.is_receiving_request, on.connection.request_at))
    assert seen == [(True, 110.0), (True, 110.0), (True, 160.0), (False, 170.0)]


async def test_a_stopped_gateway_reads_the_rest_of_a_forwarded_request(on):
    """It is idle when that is answered."""
    head = struct.pack(">ihhi", 30, 2, 6, 1) + struct.pack(">h", -1) + b"\0"
    on.receive(head)
    await on.connect()
    on.connection.stop_reading()
    assert on.client.reading
    assert not on.connection.channel.is_idle
    on.receive(bytes(34 - len(head)))
    assert not on.client.reading
    on.connection.from_broker(struct.pack(">ii", 4, 1))
    assert on.connection.channel.is_idle


async def test_a_client_that_disconnects_no_longer_waits_for_the_quota_log(on):
    on.receive(alteration(on))
    await on.connect()
    on.serve()
    await on.turn()
    assert (on.host.rates.called, on.host.rates.cancelled) == (1, 0)
    on.connection.connection_lost(None)
    await on.turn()
    assert on.host.rates.cancelled == 1


@pytest.mark.parametrize("user", ["alice", None])
async def test_a_user_of_a_certificate_needs_no_other_authentication(protocol, user):
    """Without one, a mutation before the authentication closes the connection."""
    on = Scene(protocol, user=user, authenticates=True)
    assert on.connection.channel.user == user
    on.receive(creation(on))
    await on.turn()
    assert (on.host.attempts, on.client.closed) == ((1, False) if user else (0, True))


async def test_a_certificate_that_names_nobody_closes_the_connection(protocol):
    on = Scene(protocol, user=BadInput("no rule applies"), authenticates=True)
    assert (on.client.closed, on.connection.channel.user) == (True, None)
    assert on.play.context.stats.closed == {"authentication": 1}
