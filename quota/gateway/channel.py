"""A channel: a client's connection, and the gateway's connection to a broker on behalf of this client."""

from functools import partial

from quota.errors import ErrorCode, MutationQuotaError
from quota.gateway.addresses import NAMING_BROKERS
from quota.gateway.client_quotas import RatesCall, RatesReply, alter_quotas, alters_rates, describe_quotas
from quota.gateway.client_quotas import Steps as QuotaSteps
from quota.gateway.context import ChannelIO, GatewayContext
from quota.gateway.login import Login
from quota.gateway.metadata import FIRST_VERSION, may_create, refused_topology
from quota.gateway.mutations.mutate import Steps, mutate
from quota.gateway.operations import ClientRequest, MutationResponse, Pause
from quota.gateway.pipeline import ChannelError, Pipeline
from quota.gateway.requests import LAST_FROM_LEADERS, RequestStream
from quota.gateway.responses import MAX_REQUEST_BYTES, ResponseRewriter, above_limit
from quota.records.decision_request import DecisionReply, DecisionRequest
from quota.records.request import OPERATIONS
from quota.wire.described import DescribedTopic, read_described_topics
from quota.wire.headers import RequestHeader
from quota.wire.message_codec import Message
from quota.wire.primitives import TooManyElements
from quota.wire.protocol import ApiKey

_READ_WHOLE = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.METADATA,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        *OPERATIONS,
    }
)
"""The requests that are read whole, because the gateway has a part in them; the others are passed on as they arrive."""

_LAST_OF_ANY = {
    ApiKey.FETCH: LAST_FROM_LEADERS,
    **dict.fromkeys((ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE), -1),  # a member has one session at each broker
    **dict.fromkeys((ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_PRODUCERS), -1),
    **dict.fromkeys((ApiKey.ALTER_REPLICA_LOG_DIRS, ApiKey.DESCRIBE_LOG_DIRS), -1),
}
"""The last versions of requests, above which each broker answers for itself. Of the others, it rejects those that
another has to answer: the leader of a partition, the coordinator of a group, or the broker whose configs are requested.
"""
_ANOTHER = "a request for what one broker has, which does not respond, and another cannot answer for it"


class Channel:
    """Forwards requests and responses, in order, and intercepts mutations and client quotas.

    `from_client`, `from_broker`, `go_on`, `resume` and `end` are its inputs. Each may raise `ChannelError`, `Malformed`
    or `Unwritable`: the caller must then deliver what was already sent, and close both connections. An error that a
    request causes is raised once the requests before it are answered, as by a broker.
    """

    def __init__(self, context: GatewayContext, io: ChannelIO) -> None:
        self._context = context
        self._io = io
        self.requests = RequestStream(context.offered)
        """The client's requests; its length are the bytes that are buffered."""
        self._pipeline = Pipeline(context.protocol)
        self._rewriter = ResponseRewriter(context, self._pipeline)
        self._login = Login(context, self._pipeline, io, self._end)
        self._has_read_head = False
        """Whether a header of the client was read whole since its user is known; the first one is."""
        self._flow: Steps | QuotaSteps | None = None
        self._stepping = RequestHeader(0, 0, 0, None)
        self._is_held = False
        self.is_waiting = False
        """Whether a request is held back because the channel is busy or muted."""
        self._may_start = False
        self._failure: MutationQuotaError | None = None
        self.stands_in = False
        """Whether its broker is another than the one behind the gateway's port."""

    def identify(self, user: str) -> None:
        """Take the user's name from the client's certificate."""
        self._login.user = user

    def stand_in(self, port: int) -> None:
        """Take it that the broker is another than the one behind the gateway's port, for which it must not answer.

        The channel ends when the client learns that this one has the port: some clients, such as librdkafka, then take
        the connection for one to it.
        """
        self.stands_in = True
        self._rewriter.watch(port)
        if self._pipeline.expects(_is_of_one_broker):
            raise ChannelError("broker", _ANOTHER)

    def from_client(self, data: bytes) -> None:
        """Process bytes received from the client."""
        passed = self.requests.add(data)
        if passed:
            self._pipeline.to_broker.append(passed)
        self._advance()

    def from_broker(self, data: bytes) -> None:
        """Process bytes received from the broker."""
        was_full = self._pipeline.is_full
        try:
            self._pipeline.take(data)
            if self._rewriter.has_named and self._failure is None:
                self._failure = ChannelError("broker_back", "the broker of its port responds again")
            self._check_end()
        finally:
            self._flush()
        if was_full:
            self._advance()

    def go_on(self, reply: DecisionReply | RatesReply | None = None) -> None:
        """Continue the request in progress, with the reply on a `DecisionRequest` or `RatesCall`, or after a pause."""
        try:
            self._step(reply)
            self._check_end()
        finally:
            self._flush()

    def resume(self) -> None:
        """Start the held request; call this when the channel is neither busy nor muted."""
        self.is_waiting, self._may_start = False, True
        self._advance()

    def end(self, failure: MutationQuotaError) -> None:
        """Take no more requests, and raise `failure` once those already taken are answered."""
        self._failure = self._failure or failure
        self.requests.clear()
        self._check_end()

    def close(self) -> None:
        """Discard the request in progress, and remove the channel from the mutes."""
        self._context.mutes.close(self)
        if self._flow is not None:
            self._flow.close()
            self._flow = None

    # State, for the server

    @property
    def user(self) -> str | None:
        """The name of the client's principal; None until the broker has accepted it."""
        return self._login.user

    @property
    def buffered_bytes(self) -> int:
        """The number of buffered bytes of the client's requests, and of the broker's responses."""
        return len(self.requests) + self._pipeline.held_bytes

    @property
    def is_full(self) -> bool:
        """Whether requests are held back because too many responses are outstanding."""
        return self._pipeline.is_full

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress and no response is outstanding.

        A channel whose next request is held by a mute, or whose request is held by a debt, counts as idle.
        """
        if (self._flow is not None and not self._is_held) or self.requests.is_passing or not self._pipeline.is_idle:
            return False
        return not self.is_waiting or self._context.mutes.muted(self, self._io.now())

    # Requests

    def _advance(self) -> None:
        if self._failure is not None:
            self.requests.clear()
            return
        try:
            while not (self.is_waiting or self._pipeline.is_full) and self._next_request():
                pass
        except MutationQuotaError as error:
            self.end(error)
        finally:
            self._flush()

    def _check_end(self) -> None:
        if self._failure is not None and self._flow is None and self._pipeline.is_idle:
            raise self._failure

    def _next_request(self) -> bool:
        """Process the next request; return false if it has not arrived, or has to wait."""
        if self._login.takes_tokens:
            return self._next_token()
        header = self.requests.peek(authenticated=self.user is not None)
        if header is None:
            return False
        if header.api_key not in _READ_WHOLE:
            return self._relay(header)
        is_too_large = (self.requests.length or 0) > MAX_REQUEST_BYTES
        if not (self.requests.has_start if is_too_large else self.requests.is_complete):
            return False
        header, _ = self.requests.read_head() or (header, None)
        self._has_read_head = self.user is not None
        if not self._begin():
            return False
        if is_too_large:
            self._reject(header, self.requests.discard())
        else:
            frame = self.requests.take()
            try:
                self._process(header, frame)
            except TooManyElements:
                self._reject(header, frame)
        return True

    def _process(self, header: RequestHeader, frame: bytes) -> None:
        match header.api_key:
            case ApiKey.API_VERSIONS:
                self._on_api_versions(header, frame)
            case ApiKey.METADATA:
                self._on_metadata(header, frame)
            case ApiKey.SASL_HANDSHAKE:
                self._login.handshake(header, self._read(header, frame))
            case ApiKey.SASL_AUTHENTICATE:
                self._login.authenticate(header, self._read(header, frame))
            case ApiKey.DESCRIBE_CLIENT_QUOTAS | ApiKey.ALTER_CLIENT_QUOTAS:
                self._on_client_quotas(header, frame)
            case ApiKey.STREAMS_GROUP_HEARTBEAT:
                self._on_streams_heartbeat(header, frame)
            case _:
                self._on_mutation(header, frame)

    def _reject(self, header: RequestHeader, frame: bytes) -> None:
        self._pipeline.respond(header, above_limit(self._context.protocol, header, frame))
        self._end()

    def _next_token(self) -> bool:
        """Process the next bare token of a SASL exchange; return false if it has not arrived, or has to wait."""
        if not (self.requests.has_token() and self._begin()):
            return False
        self._login.token(self.requests.take())
        return True

    def _begin(self) -> bool:
        """Return whether the next request may begin; if not, the channel waits for `resume`."""
        if self._may_start:
            self._may_start = False
        elif not self._context.mutes.offer(self, self._io.now()):
            self.is_waiting = True
            return False
        return True

    def _end(self, throttle_time_ms: int = 0) -> None:
        """End the request in progress; the next held request is due immediately, or after the mute."""
        self._context.mutes.answered(self, throttle_time_ms, self._io.now())

    def _relay(self, header: RequestHeader) -> bool:
        """Forward a request as its bytes arrive; return false if it has to wait."""
        if self.stands_in and _is_of_one_broker(header):
            raise ChannelError("broker", _ANOTHER)
        acks: int | None = 1
        if header.api_key == ApiKey.PRODUCE or not self._has_read_head:
            head = self.requests.read_head()
            if head is None:
                return False
            header, acks = head
            self._has_read_head = self.user is not None
        if not self._begin():
            return False
        self._pipeline.to_broker.append(self.requests.pass_on())
        if acks and self._context.addresses.names_leaders(header.api_key, header.api_version):
            self._pipeline.expect(header, self._rewriter.leaders, self._rewriter.leaders_in_pieces)
        elif acks:
            handle = partial(self._rewriter.brokers, header) if header.api_key in NAMING_BROKERS else None
            self._pipeline.expect(header, handle)
        self._context.stats.relayed += 1
        self._end()
        return True

    # Requests that are read whole

    def _on_api_versions(self, header: RequestHeader, frame: bytes) -> None:
        last = self._context.protocol.apis[ApiKey.API_VERSIONS].max_version
        if header.api_version <= last:
            self._pipeline.forward(header, frame, self._rewriter.api_versions)
        else:  # the response of a broker to an unsupported version
            known = [{"apiKey": int(ApiKey.API_VERSIONS), "minVersion": 0, "maxVersion": last}]
            response = {"errorCode": int(ErrorCode.UNSUPPORTED_VERSION), "apiKeys": known}
            self._pipeline.respond(header._replace(api_version=0), response)
        self._end()

    def _on_metadata(self, header: RequestHeader, frame: bytes) -> None:
        """Forward a Metadata request so that it creates no topics."""
        message = self._read(header, frame)
        handle = partial(self._rewriter.brokers, header)
        in_pieces = partial(self._rewriter.metadata_in_pieces, header)
        if may_create(header.api_version, message):
            sent = header._replace(api_version=max(header.api_version, FIRST_VERSION))
            message["allowAutoTopicCreation"] = False
            self._pipeline.call(sent, message, handle, in_pieces if header.api_version else None)
        else:
            self._pipeline.forward(header, frame, handle, in_pieces)
        self._context.stats.relayed += 1
        self._end()

    def _on_streams_heartbeat(self, header: RequestHeader, frame: bytes) -> None:
        if refused := refused_topology(self._read(header, frame)):
            self._pipeline.respond(header, refused)
        else:
            self._pipeline.forward(header, frame)
            self._context.stats.relayed += 1
        self._end()

    def _on_mutation(self, header: RequestHeader, frame: bytes) -> None:
        message = self._read(header, frame)
        topics = message.get("topicNames") or message.get("topics")
        passed_on = message.get("validateOnly") and header.api_key != ApiKey.CREATE_PARTITIONS
        if self.user is None or not topics or passed_on:
            self._pipeline.forward(header, frame)
            self._end()
            return
        key, now, left_ms = ApiKey(header.api_key), self._io.now(), self._login.session_left_ms()
        request = ClientRequest(key, header.api_version, header.client_id, self.user, message, now, left_ms)
        self._start(header, mutate(request, self._context, self._io.now))

    def _on_client_quotas(self, header: RequestHeader, frame: bytes) -> None:
        message = self._read(header, frame)
        if header.api_key == ApiKey.DESCRIBE_CLIENT_QUOTAS:
            self._start(header, describe_quotas(header.api_version, message, self._context.stats))
        elif self.user is not None and alters_rates(message):
            self._start(header, alter_quotas(header.api_version, message, self.user))
        else:
            self._pipeline.forward(header, frame)
            self._context.stats.relayed += 1
            self._end()

    def _start(self, header: RequestHeader, flow: Steps | QuotaSteps) -> None:
        self._stepping, self._flow = header, flow
        self._step(None)

    def _step(self, result: Message | list[DescribedTopic] | DecisionReply | RatesReply | None) -> None:
        if self._flow is None:
            return
        try:
            step = self._flow.send(result)
        except StopIteration as ended:
            self._flow = None
            response: MutationResponse = ended.value
            self._pipeline.respond(self._stepping, response.message)
            if response.topics:
                self._context.stats.add_mutation(self._stepping, response)
            self._end(response.mute_ms)
            return
        self._is_held = isinstance(step, Pause) and step.is_hold
        if isinstance(step, DecisionRequest):
            self._io.request_decision(step)
        elif isinstance(step, RatesCall):
            self._io.call_rates(step)
        elif isinstance(step, Pause):
            self._io.pause(step.ms)
        else:
            header = self._stepping._replace(api_key=step.key, api_version=step.version)
            self._pipeline.call(header, step.message, self._on_call_response)

    def _read(self, header: RequestHeader, frame: bytes) -> Message:
        return self._context.protocol.request(header.api_key, header.api_version).read(frame, header.body)

    def _on_call_response(self, request: RequestHeader, frame: bytes) -> None:
        if request.api_key == ApiKey.METADATA:
            self._step(read_described_topics(frame, self._pipeline.body_of(request, frame)))
        else:
            self._step(self._pipeline.read_response(request, frame))

    def _flush(self) -> None:
        for data, send in (
            (self._pipeline.to_broker, self._io.to_broker),
            (self._pipeline.to_client, self._io.to_client),
        ):
            if data:
                send(data[0] if len(data) == 1 else b"".join(data))
                data.clear()


def _is_of_one_broker(request: RequestHeader) -> bool:
    last = _LAST_OF_ANY.get(request.api_key)  # type: ignore[call-overload]
    return last is not None and request.api_version > last
