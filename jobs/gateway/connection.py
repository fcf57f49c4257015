"""The connection of a client, and the connection to the broker for it."""

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from jobs.gateway.buffers import HELD_BYTES, buffered_bytes, limit_unsent
from jobs.gateway.listeners import Listener
from quota.errors import BadInput, MutationQuotaError
from quota.gateway.channel import Channel
from quota.gateway.client_quotas import RatesCall, RatesReply
from quota.gateway.context import ChannelError
from quota.records.decision_request import DecisionReply, DecisionRequest

if TYPE_CHECKING:
    from jobs.gateway.server import GatewayServer

_log = logging.getLogger(__name__)

_PROBES = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""When a vanished peer is noticed: after a minute without data, and three unanswered probes ten seconds apart."""
_DELIVERY_SECONDS = 30.0
"""How long the rest of what a client has sent is kept for its broker after it has left: as `asyncio` does with TLS."""
_COMMENT = "AlterClientQuotas at the gateway"
"""The comment of the changes of quotas that clients make."""


class ClientConnection(asyncio.Protocol):
    """The connection of a client: `asyncio` calls its methods, and the channel decides what is sent.

    The connection to the broker is opened once the first request is recognized.
    """

    __slots__ = (
        "_access",
        "_broker",
        "_broker_is_slow",
        "_client_is_slow",
        "_connecting",
        "_held",
        "_host",
        "_listener",
        "_pending",
        "_reading",
        "_reply",
        "_stopped",
        "_taken",
        "_transport",
        "active_at",
        "buffered",
        "channel",
        "closing_at",
        "peer",
        "request_at",
        "started_at",
    )

    def __init__(self, host: "GatewayServer", listener: Listener, peer: str) -> None:
        self._host = host
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._broker: BrokerConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._pending: list[bytes] = []
        self._held = 0
        self._taken = 0
        self._broker_is_slow = False
        self._client_is_slow = False
        self._reading = True
        self._reply: asyncio.Future[DecisionReply] | None = None
        self._access: asyncio.Task[None] | None = None
        self._stopped = False
        self.channel = Channel(host.context, self)
        self.started_at = self.active_at = self.request_at = time.monotonic()
        self.buffered = 0
        """The bytes that are buffered for either side, as they were last counted."""
        self.closing_at: float | None = None
        """The time at which `close` was called."""
        self.peer = peer

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with a connection whose TLS, if it has any, is established."""
        self._transport = cast("asyncio.Transport", transport)
        _keep_alive(transport)
        self._host.opened(self)
        try:
            user = self._host.user_of(self._certificate)
        except BadInput as error:
            self.close("authentication", str(error))
            return
        if user is not None:
            self.channel.identify(user)

    def data_received(self, data: bytes) -> None:
        """Pass the client's bytes to the channel; TLS may still deliver some after `close`, which are ignored."""
        if self.closing_at is not None:
            return
        self.active_at = time.monotonic()
        if not self._held:
            self.request_at = self.active_at
        self._host.context.stats.client_bytes += len(data)
        self.run(self.channel.from_client, data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 the cause is irrelevant
        """Also close the connection to the broker."""
        self._transport = None
        self._host.closed(self)
        self._host.buffer(-self.buffered)
        self.buffered = self._held = 0
        for awaited in (self._reply, self._access):
            if awaited is not None:
                awaited.cancel()
        self.channel.close()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._broker is not None:
            self._broker.close()

    def pause_writing(self) -> None:
        """Pause reading from broker and client until the client has read its data."""
        self._client_is_slow = True
        if self._broker is not None:
            self._broker.pause_reading()
        self._read_as_far_as_allowed()

    def resume_writing(self) -> None:
        """Resume reading from both."""
        self._client_is_slow = False
        if self._broker is not None:
            self._broker.resume_reading()
        self._read_as_far_as_allowed()

    # quota.gateway.context.ChannelIO

    def to_client(self, data: bytes) -> None:
        """Send bytes to the client."""
        if self._transport is not None:
            self._transport.write(data)

    def to_broker(self, data: bytes) -> None:
        """Send bytes to the broker, or buffer them until it is connected."""
        if self._broker is not None:
            self._broker.write(data)
            return
        self._pending.append(data)
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect_to_broker())

    def request_decision(self, request: DecisionRequest) -> None:
        """Request a decision on mutations."""
        self._reply = self._host.decisions.request(request)
        self._reply.add_done_callback(self._decided)

    def call_rates(self, call: RatesCall) -> None:
        """Access the rates in the quota log."""
        self._access = asyncio.get_running_loop().create_task(self._call_rates(call))

    def pause(self, ms: int) -> None:
        """Resume the channel after this time."""
        asyncio.get_running_loop().call_later(ms / 1000, self.run, self.channel.go_on)

    def now(self) -> int:
        """Return the time of a monotonic clock [ms]."""
        return now_monotonic_ms()

    # For the server and the other connection

    def run(self, action: Callable[..., None], *args: object) -> None:
        """Pass an input to the channel; close the connections if it fails."""
        if self._transport is None:  # a timer, or bytes of the broker, after the client has left
            return
        try:
            action(*args)
        except MutationQuotaError as error:
            self.close(error.reason if isinstance(error, ChannelError) else "malformed", str(error))
        except Exception:  # noqa: BLE001 an error of one client must not affect the others
            _log.exception("closing the connection of %s: an unexpected error", self.peer)
            self.close("internal", "")
        else:
            self._check_held()
            self._read_as_far_as_allowed()
        self._host.watch_mutes()

    def end(self, reason: str, message: str) -> None:
        """Take no more requests, and close both connections once those already taken are answered."""
        self.run(self.channel.end, ChannelError(reason, message))

    def close(self, reason: str = "", message: str = "") -> None:
        """Close both connections once sent data is delivered, and count the reason if there is one."""
        if reason:
            self._host.context.stats.add_closed(reason, self.peer, message, self.now())
        if self.closing_at is not None:
            return
        self.closing_at = time.monotonic()
        if transport := _open(self._transport):
            transport.close()

    def stop_reading(self) -> None:
        """Accept no further requests, except one that is arriving; complete requests still get a response."""
        self._stopped = True
        self._read_as_far_as_allowed()

    def abort(self) -> None:
        """Close both connections now, even if the client has not received the sent data."""
        if self._transport is not None:
            self._transport.abort()

    def from_broker(self, data: bytes) -> None:
        """Pass the broker's bytes to the channel."""
        self.active_at = time.monotonic()
        self._host.context.stats.broker_bytes += len(data)
        self.run(self.channel.from_broker, data)

    def count_buffered(self) -> int:
        """Count the bytes that are buffered for either side; return how many more they are than before."""
        if self._transport is None:
            return 0
        before = self.buffered
        self.buffered = self.channel.buffered_bytes + buffered_bytes(self._transport)
        if self._pending:
            self.buffered += sum(map(len, self._pending))
        if self._broker is not None:
            self.buffered += buffered_bytes(self._broker.transport)
        return self.buffered - before

    def limit_buffered(self) -> None:
        """Buffer as much as all connections together allow, from now on."""
        for transport in (self._transport, self._broker.transport if self._broker else None):
            limit_unsent(transport, crowded=self._host.buffers.is_crowded)
        self._read_as_far_as_allowed()

    def set_broker_slow(self, *, is_slow: bool) -> None:
        """Read from the client only as fast as the broker reads."""
        self._broker_is_slow = is_slow
        self._read_as_far_as_allowed()

    @property
    def is_receiving_request(self) -> bool:
        """Whether the client has sent only a part of a request that is not forwarded as it arrives."""
        return self._held > 0 and self._reading and not self._waits

    @property
    def is_authenticated(self) -> bool:
        """Whether the broker has accepted the client."""
        return self.channel.user is not None

    @property
    def _waits(self) -> bool:
        return self.channel.is_waiting or self.channel.is_full

    @property
    def _certificate(self) -> bytes | None:
        """The client's certificate, which TLS has verified (DER)."""
        tls = self._transport and self._transport.get_extra_info("ssl_object")
        return tls.getpeercert(binary_form=True) if tls else None

    def _check_held(self) -> None:
        """Close the connection if it buffers a part of a request and all connections together buffer too much."""
        if self._taken != self.channel.requests_taken:
            self._taken, self.request_at = self.channel.requests_taken, time.monotonic()
        held, self._held = self._held, self.channel.held_bytes
        if self._host.buffers.is_crowded and self._held > max(held, HELD_BYTES) and not self._waits:
            self.end("memory", "all connections together buffer too much, and this one a part of a request")

    async def _call_rates(self, call: RatesCall) -> None:
        rates = self._host.rates
        try:
            if call.changes:
                await rates.alter(call.changes, call.author, _COMMENT)
                reply = RatesReply()
            else:
                reply = RatesReply(await rates.read())
        except MutationQuotaError as error:
            reply = RatesReply(error=str(error))
        self.run(self.channel.go_on, reply)

    def _decided(self, reply: asyncio.Future[DecisionReply]) -> None:
        if not reply.cancelled():
            self._host.context.stats.add_reply(reply.result())
            self.run(self.channel.go_on, reply.result())

    def _read_as_far_as_allowed(self) -> None:
        if more := self.count_buffered():
            self._host.buffer(more)
        held = self._waits and self.channel.held_bytes > self._host.buffers.held_bytes
        connecting = self._broker is None and bool(self._pending)
        stopped = self._stopped and not self.channel.is_receiving
        reading = not (held or connecting or self._broker_is_slow or self._client_is_slow or stopped)
        if reading != self._reading and (transport := _open(self._transport)):
            self._reading = reading
            if reading:
                self.request_at = time.monotonic()
                transport.resume_reading()
            else:
                transport.pause_reading()

    async def _connect_to_broker(self) -> None:
        try:
            broker = await self._host.connect(self._listener, self._certificate, lambda: BrokerConnection(self))
        except (OSError, ValueError, MutationQuotaError) as error:  # a host name may be invalid, or the issuer
            self.close("broker", f"the broker cannot be reached: {error}")
            return
        self._broker = broker
        if self._transport is None:
            broker.close()
            return
        pending, self._pending = self._pending, []
        for data in pending:
            broker.write(data)
        if self._client_is_slow:
            broker.pause_reading()
        self.limit_buffered()


class BrokerConnection(asyncio.Protocol):
    """The connection to a broker that belongs to one client."""

    __slots__ = ("_client", "_late", "transport")

    def __init__(self, client: ClientConnection) -> None:
        self._client = client
        self._late: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self.transport = cast("asyncio.Transport", transport)
        _keep_alive(transport)

    def data_received(self, data: bytes) -> None:
        """Pass the broker's bytes to the client's connection."""
        self._client.from_broker(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 the cause is irrelevant
        """Close the client's connection; the client reconnects when the broker is available again."""
        self.transport = None
        if self._late is not None:
            self._late.cancel()
        self._client.close()

    def pause_writing(self) -> None:
        """Pause the client's connection while the broker does not read."""
        self._client.set_broker_slow(is_slow=True)

    def resume_writing(self) -> None:
        """Resume the client's connection when the broker reads again."""
        self._client.set_broker_slow(is_slow=False)

    def write(self, data: bytes) -> None:
        """Send bytes to the broker."""
        if self.transport is not None:
            self.transport.write(data)

    def pause_reading(self) -> None:
        """Stop reading the broker's bytes."""
        if transport := _open(self.transport):
            transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading the broker's bytes."""
        if transport := _open(self.transport):
            transport.resume_reading()

    def close(self) -> None:
        """Close the connection once sent data is delivered, for which a broker that hangs has half a minute."""
        if transport := _open(self.transport):
            transport.close()
        if self.transport is not None and self._late is None:
            self._late = asyncio.get_running_loop().call_later(_DELIVERY_SECONDS, self.transport.abort)


def _open(transport: asyncio.Transport | None) -> asyncio.Transport | None:
    """Return a transport that is not closing yet; that of TLS can no longer be aborted if it is closed twice."""
    return None if transport is None or transport.is_closing() else transport


def _keep_alive(transport: asyncio.BaseTransport) -> None:
    """Have the kernel close a connection whose other side has vanished, also while nothing is sent or read."""
    connection = transport.get_extra_info("socket")
    if connection is None:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in _PROBES.items():
        if option := getattr(socket, name, None):  # not on all systems
            connection.setsockopt(socket.IPPROTO_TCP, option, seconds)


def now_monotonic_ms() -> int:
    """Return the time of the clock by which channels are muted [ms]."""
    return time.monotonic_ns() // 1_000_000
