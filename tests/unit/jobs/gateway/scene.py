"""A client's connection without sockets: its transport, its broker's, and what it shares with others."""

import asyncio

from jobs.gateway.buffers import Buffers
from jobs.gateway.connection import ClientConnection
from quota.records.decision_request import DecisionReply
from tests.unit.quota.gateway.play import FakePorts, Play, decision_on


class FakeTransport:
    """A transport that records its calls."""

    def __init__(self):
        self.written = bytearray()
        self.unsent = 0
        self.reading = True
        self.closed = self.aborted = False

    def get_extra_info(self, name):
        return {"peername": ("192.0.2.1", 5)}.get(name)

    def write(self, data):
        self.written += data

    def get_write_buffer_size(self):
        return self.unsent

    def set_write_buffer_limits(self, *limits):
        pass

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def is_closing(self):
        return self.closed

    def close(self):
        assert not self.closed, "a transport of TLS that is closed twice cannot be aborted"
        self.closed = True

    def abort(self):
        self.aborted = True


class FakeDecisions:
    """Records requests for decisions."""

    def __init__(self):
        self.requested, self.replies = [], []

    def request(self, wanted):
        self.requested.append(wanted)
        self.replies.append(asyncio.get_running_loop().create_future())
        return self.replies[-1]


class FakeRates:
    """Counts the alterations of the quota log, which never end by themselves."""

    def __init__(self):
        self.called = self.cancelled = 0

    async def alter(self, *_):
        self.called += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


class FakeConnections:
    """What connections share, operated by hand: the broker is connected when `connected` is set."""

    def __init__(self, context, user):
        self.context = context
        self.user = user
        self.encryption = self
        self.decisions = FakeDecisions()
        self.rates = FakeRates()
        self.gone = []
        self.connected = asyncio.Event()
        self.error = None
        self.broker = self.made = None
        self.attempts = 0
        self.is_own = True
        self.buffers = Buffers()

    def opened(self, connection):
        pass

    def closed(self, connection):
        self.gone.append(connection)

    def watch_mutes(self):
        pass

    def user_of(self, _certificate):
        if isinstance(self.user, Exception):
            raise self.user
        return self.user

    def buffer(self, more):
        self.buffers.total += more
        self.buffers.update()

    async def connect(self, connection, _port, _certificate):
        self.attempts += 1
        await self.connected.wait()
        if self.error:
            raise self.error
        self.broker, self.made = FakeTransport(), connection
        connection.connection_made(self.broker)
        return self.is_own


class Scene:
    """One client; `play` writes and reads frames for both sides."""

    def __init__(self, protocol, user=None, **options):
        """Take the user of the client's certificate, or the reason why there is none; `options` are the context's."""
        self.play = Play(protocol, **options)
        self.host = FakeConnections(self.play.context, user)
        self.client = FakeTransport()
        self.connection = ClientConnection(self.host, 19_092, "192.0.2.1")
        self.play.channel = self.connection.channel
        self.play.ports = self.ports = FakePorts()
        self.open()

    def open(self):
        self.connection.connection_made(self.client)

    async def connect(self):
        """Let the broker be connected."""
        self.host.connected.set()
        await self.turn()

    async def decide(self, *replies):
        """Reply to the last request for a decision; by default it is admitted."""
        admitted = DecisionReply(decision_on(self.host.decisions.requested[-1].request))
        self.host.decisions.replies[-1].set_result(*(replies or [admitted]))
        await self.turn()

    @staticmethod
    async def turn():
        for _ in range(5):
            await asyncio.sleep(0)

    def receive(self, data):
        self.connection.data_received(data)

    def broker_side(self):
        return self.host.made

    def serve(self):
        """Have the broker answer what it got."""
        self.ports.broker += self.host.broker.written
        self.host.broker.written.clear()
        while (answer := self.play.next_answer()) is not None:
            self.broker_side().data_received(answer)
            self.ports.broker += self.host.broker.written
            self.host.broker.written.clear()

    def answers(self):
        self.ports.client += self.client.written
        self.client.written.clear()
        return self.play.answers()
