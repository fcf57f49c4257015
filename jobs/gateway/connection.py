"""The connections of clients."""

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator
from random import random
from typing import Any, cast

from jobs.gateway.brokers import BrokerConnection, keep_alive, not_closing
from jobs.gateway.buffers import HELD_BYTES, Buffers, buffered_bytes, limit_unsent
from jobs.gateway.encryption import Encryption
from quota.errors import BadInput, ClusterError, MutationQuotaError
from quota.gateway.channel import Channel
from quota.gateway.client_quotas import RatesCall, RatesReply
from quota.gateway.context import GatewayContext
from quota.gateway.pipeline import ChannelError
from quota.kafka.awaited_decisions import AwaitedDecisions
from quota.kafka.brokers.tokens import failure_reason
from quota.kafka.quotas.writer import LoggedRates
from quota.kafka.timing import now_monotonic_ms
from quota.records.decision_request import DecisionReply, DecisionRequest
from quota.wire.protocol import Address

_log = logging.getLogger(__name__)

_CONNECT_SECONDS = 10.0
_CONNECT_AGAIN_SECONDS = 0.5
"""The same for a broker that did not respond before, while others do: if it is back, its clients have to reach it."""
_COMMENT = "AlterClientQuotas at the gateway"


class ClientConnection(asyncio.Protocol):
    """The connection of a client: `asyncio` calls its methods, and the channel decides what is sent.

    The connection to the broker is opened once the first request is recognized.
    """

    __slots__ = (
        "_awaited",
        "_broker",
        "_broker_is_slow",
        "_client_is_slow",
        "_connecting",
        "_held",
        "_host",
        "_pending",
        "_reading",
        "_stopped",
        "_taken",
        "_transport",
        "active_at",
        "buffered",
        "channel",
        "closing_at",
        "peer",
        "port",
        "request_at",
        "started_at",
    )

    def __init__(self, host: "Connections", port: int, peer: str) -> None:
        self._host = host
        self.port = port
        """The port of the gateway to which the client has connected."""
        self._transport: asyncio.Transport | None = None
        self._broker: BrokerConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._pending: list[bytes] = []
        self._held = 0
        self._taken = 0
        self._broker_is_slow = False
        self._client_is_slow = False
        self._reading = True
        self._awaited: asyncio.Future[Any] | None = None
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
        keep_alive(transport)
        self._host.opened(self)
        self.run(self._identify)

    def data_received(self, data: bytes) -> None:
        """Pass the client's bytes to the channel; TLS may still deliver some after `close`, which are ignored."""
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
        self.close()
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
            self._connecting = self._start(self._connect_to_broker)

    def request_decision(self, request: DecisionRequest) -> None:
        """Request a decision on mutations."""
        self._awaited = reply = self._host.decisions.request(request)
        reply.add_done_callback(self._decided)

    def call_rates(self, call: RatesCall) -> None:
        """Access the rates in the quota log."""
        self._awaited = self._start(self._call_rates, call)

    def pause(self, ms: int) -> None:
        """Resume the channel after this time."""
        asyncio.get_running_loop().call_later(ms / 1000, self.run, self.channel.go_on)

    def now(self) -> int:
        """Return the time of a monotonic clock [ms]."""
        return now_monotonic_ms()

    # For the server and the connection to the broker

    def run(self, action: Callable[..., None], *args: object) -> None:
        """Pass an input to the channel; close the connections if it fails."""
        if self.closing_at is not None:  # bytes of either side, or a timer, for a client that gets nothing any more
            return
        try:
            action(*args)
            self._check_held()
            self._read_as_far_as_allowed()
        except MutationQuotaError as error:
            self.close(error.reason if isinstance(error, ChannelError) else "malformed", str(error))
        except Exception:  # noqa: BLE001 an error of one client must not affect the others
            self._close_unexpectedly()
        self._host.watch_mutes()

    def end(self, reason: str, message: str) -> None:
        """Take no more requests, and close both connections once those already taken are answered."""
        self.run(self.channel.end, ChannelError(reason, message))

    def close(self, reason: str = "", message: str = "") -> None:
        """Close both connections once sent data is delivered, and count the reason if there is one.

        What the client waited for ends now: TLS may take a while to close.
        """
        if reason:
            self._host.context.stats.add_closed(reason, self.peer, message, self.now())
        if self.closing_at is not None:
            return
        self.closing_at = time.monotonic()
        if self._awaited is not None:
            self._awaited.cancel()
        self.channel.close()
        if transport := not_closing(self._transport):
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

    def set_broker_slow(self, is_slow: bool) -> None:  # noqa: FBT001 the one argument
        """Read from the client only as fast as the broker reads."""
        self._broker_is_slow = is_slow
        self._read_as_far_as_allowed()

    @property
    def is_receiving_request(self) -> bool:
        """Whether the client has sent only a part of a request that is not forwarded as it arrives."""
        return self._held > 0 and self._reading and not self._waits

    @property
    def _waits(self) -> bool:
        return self.channel.is_waiting or self.channel.is_full

    @property
    def _certificate(self) -> bytes | None:
        """The client's certificate, which TLS has verified (DER)."""
        tls = self._transport and self._transport.get_extra_info("ssl_object")
        return tls.getpeercert(binary_form=True) if tls else None

    def _start(self, work: Callable[..., Awaitable[None]], *args: object) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self._finish(work, *args))

    async def _finish(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        """Do what takes time; close the connections if it fails, because the client would wait in vain."""
        try:
            await work(*args)
        except Exception:  # noqa: BLE001 as in `run`
            self._close_unexpectedly()

    def _close_unexpectedly(self) -> None:
        _log.exception("closing the connection of %s: an unexpected error", self.peer)
        self.close("internal")

    def _identify(self) -> None:
        try:
            user = self._host.encryption.user_of(self._certificate)
        except BadInput as error:
            raise ChannelError("authentication", str(error)) from None
        if user is not None:
            self.channel.identify(user)

    def _check_held(self) -> None:
        """Close the connection if it buffers a part of a request and all connections together buffer too much."""
        if self._taken != self.channel.requests.taken:
            self._taken, self.request_at = self.channel.requests.taken, time.monotonic()
        held, self._held = self._held, len(self.channel.requests)
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
            self.run(self._continue, reply)

    def _continue(self, reply: asyncio.Future[DecisionReply]) -> None:
        self._host.context.stats.add_reply(reply.result())
        self.channel.go_on(reply.result())

    def _broker_left(self) -> None:
        """Close the client's connection, too, and say why if a request of it is not answered."""
        if self._transport is None or self.closing_at is not None or self.channel.is_idle:
            self.close()
        elif self._awaited is None or self._awaited.done():
            self.close("broker_closed", "the broker has closed its connection before it answered a request")
        else:
            silent = time.monotonic() - self.active_at
            self.close(
                "broker_closed",
                f"the broker has closed its connection after {silent:.0f} s without data, while a request waited"
                " for a decision; its connections.max.idle.ms has to be longer than gateway.decision_timeout_seconds",
            )

    def _read_as_far_as_allowed(self) -> None:
        if more := self.count_buffered():
            self._host.buffer(more)
        held = self._waits and len(self.channel.requests) > self._host.buffers.held_bytes
        connecting = self._broker is None and bool(self._pending)
        stopped = self._stopped and not self.channel.requests.is_passing
        reading = not (held or connecting or self._broker_is_slow or self._client_is_slow or stopped)
        if reading != self._reading and (transport := not_closing(self._transport)):
            self._reading = reading
            if reading:
                self.request_at = time.monotonic()
                transport.resume_reading()
            else:
                transport.pause_reading()

    async def _connect_to_broker(self) -> None:
        broker = BrokerConnection(self.from_broker, self._broker_left, self.set_broker_slow)
        try:
            is_own = await self._host.connect(broker, self.port, self._certificate)
        except (OSError, ValueError, MutationQuotaError) as error:  # the issuer may be unusable
            self.close("broker", f"no broker can be reached: {error}")
            return
        self._broker = broker
        if self._transport is None:
            broker.close()
            return
        if not is_own:
            self.run(self.channel.stand_in, self.port)
        if self.closing_at is not None:
            return
        pending, self._pending = self._pending, []
        for data in pending:
            broker.write(data)
        if self._client_is_slow:
            broker.pause_reading()
        self.limit_buffered()


class Connections:
    """The open connections of clients, and what they share; used on one event loop.

    A connection counts from its acceptance (`accepted`). It is `opened` once its TLS, if it has any, is established,
    and `closed` at its end; one that ends before has `left`.
    """

    def __init__(
        self,
        context: GatewayContext,
        decisions: AwaitedDecisions,
        rates: LoggedRates,
        encryption: Encryption,
        most: int,
    ) -> None:
        """Start without connections, of which there may be `most`."""
        self.context = context
        self.decisions = decisions
        self.rates = rates
        self.encryption = encryption
        self.buffers = Buffers()
        self.brokers: dict[int, Address] = {}
        """The brokers behind the ports."""
        self._most = most
        self._open: dict[Hashable, ClientConnection] = {}
        self._arriving = 0
        """Accepted connections that are none of these yet."""
        self._alarm: tuple[int, asyncio.TimerHandle] | None = None

    def __len__(self) -> int:
        """Return the number of those that are opened."""
        return len(self._open)

    def __iter__(self) -> Iterator[ClientConnection]:
        """Return those that are opened now, some of which may be closed meanwhile."""
        return iter(list(self._open.values()))

    def accepted(self) -> str | None:
        """Count a new connection; return the reason if there are too many. Then comes `opened` or `left`."""
        self._arriving += 1
        self.context.stats.accepted += 1
        self._count()
        if self.context.stats.connections > self._most:
            return f"there are more than gateway.max_connections={self._most}"
        return None

    def left(self) -> None:
        """Count one that has ended before it was opened."""
        self._arriving -= 1
        self._count()

    def opened(self, connection: ClientConnection) -> None:
        """Add an accepted connection, whose TLS, if it has any, is established."""
        self._arriving -= 1
        self._open[connection.channel] = connection
        self._count()

    def closed(self, connection: ClientConnection) -> None:
        """Remove a connection."""
        self._open.pop(connection.channel, None)
        self._count()

    def _count(self) -> None:
        self.context.stats.connections = len(self._open) + self._arriving

    def buffer(self, more: int) -> None:
        """Add to the bytes that connections buffer; once these are too many, have all buffer less."""
        self.buffers.total += more
        if self.buffers.is_over:
            self.update_buffers()

    def watch_mutes(self) -> None:
        """Schedule `_on_alarm` for the time when the next channel is unmuted."""
        next_at = self.context.mutes.next_at()
        if next_at is None or (self._alarm is not None and self._alarm[0] <= next_at):
            return
        if self._alarm is not None:
            self._alarm[1].cancel()
        seconds = max(next_at - now_monotonic_ms(), 0) / 1000
        self._alarm = (next_at, asyncio.get_running_loop().call_later(seconds, self._on_alarm))

    async def connect(self, connection: BrokerConnection, port: int, certificate: bytes | None) -> bool:
        """Connect to the broker behind a port of the gateway, or to another one if it does not respond.

        The client has a certificate (DER) or none. Return whether it is the port's own broker. A `ClusterError` says
        that none can be reached.
        """
        loop, stats, failures = asyncio.get_running_loop(), self.context.stats, []
        tls = await self.encryption.context_for(certificate)
        is_down = {at: bool(stats.broker_failures.get(at)) for at in self.brokers}
        again = _CONNECT_SECONDS if all(is_down.values()) else _CONNECT_AGAIN_SECONDS
        for at in sorted(is_down, key=lambda at: (at != port, is_down[at], random())):  # noqa: S311 it spreads the load
            host, broker_port = self.brokers[at]
            try:
                async with asyncio.timeout(again if is_down[at] else _CONNECT_SECONDS):
                    name = host if tls else None
                    await loop.create_connection(lambda: connection, host, broker_port, ssl=tls, server_hostname=name)
            except (OSError, UnicodeError) as error:  # a host name may be invalid
                failures.append(f"{host}:{broker_port}: {failure_reason(error)}")
                if not isinstance(error, ssl.SSLError):  # which may be because of the client's certificate
                    stats.set_broker(at, failures[-1])
            else:
                return at == port
        raise ClusterError("; ".join(failures))

    def update_buffers(self) -> None:
        """Count what all connections buffer, less what was sent meanwhile, and limit each if these are too many."""
        connections = list(self)
        self.buffers.total += sum(connection.count_buffered() for connection in connections if connection.buffered)
        self.context.stats.buffered_bytes = self.buffers.total
        if self.buffers.update():
            for connection in connections:
                connection.limit_buffered()

    def _on_alarm(self) -> None:
        """Resume the channels whose throttle time has ended."""
        self._alarm = None
        for channel in self.context.mutes.due(now_monotonic_ms()):
            connection = self._open.get(channel)
            if connection is not None:
                connection.run(connection.channel.resume)
        self.watch_mutes()
