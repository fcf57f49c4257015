"""A channel's SASL exchanges: SaslHandshake, and SaslAuthenticate or the bare tokens that follow version 0 of it.

The broker is asked in versions that tell how long a session lasts (KIP-368), whatever the client's version.
"""

from collections.abc import Callable
from functools import partial

from quota.errors import ErrorCode
from quota.gateway.context import ChannelIO, GatewayContext
from quota.gateway.pipeline import ChannelError, Handler, Pipeline
from quota.gateway.sasl import MECHANISMS, AuthenticationRejected, SaslExchange
from quota.records.request import ANONYMOUS
from quota.wire.headers import RequestHeader
from quota.wire.message_codec import Message
from quota.wire.protocol import ApiKey

_HANDSHAKE_VERSION = 1
_AUTHENTICATE_VERSION = 1
"""The first versions that have SaslAuthenticate after the handshake, and the lifetime of a session."""


class Login:
    """Passes the SASL messages of one channel on, and learns the user from them: at first, and again (KIP-368)."""

    def __init__(self, context: GatewayContext, pipeline: Pipeline, io: ChannelIO, end: Callable[[], None]) -> None:
        """Call `end` after each response."""
        self._pipeline = pipeline
        self._now = io.now
        self._end = end
        self._subject_claim = context.subject_claim
        self._margin_ms = context.decision_timeout_ms
        """How much earlier than the broker requires clients re-authenticate, so that none is cut off while it waits."""
        self._mechanism = ""
        self._exchange: SaslExchange | None = None
        self._session_ends_at: int | None = None
        self._bare: RequestHeader | None = None
        self.user = None if context.authenticates else ANONYMOUS
        """The principal's name, once the broker has accepted it, or the client's certificate has told it."""

    @property
    def takes_tokens(self) -> bool:
        """Whether the client's next frame is a bare token: a length and the mechanism's bytes, without a header."""
        return self._bare is not None

    def session_left_ms(self) -> int | None:
        """Return the time until the broker closes the connection [ms]; None if it never does."""
        return None if self._session_ends_at is None else self._session_ends_at - self._now()

    def handshake(self, header: RequestHeader, request: Message) -> None:
        """Process a SaslHandshake request."""
        self._mechanism = request["mechanism"]
        if header.api_version < _HANDSHAKE_VERSION:
            self._bare = header
        self._pipeline.call(header._replace(api_version=_HANDSHAKE_VERSION), request, self._on_handshake_response)

    def authenticate(self, header: RequestHeader, request: Message) -> None:
        """Process a SaslAuthenticate request."""
        sent = header._replace(api_version=max(header.api_version, _AUTHENTICATE_VERSION))
        try:
            self._send(sent, request, partial(self._on_authenticate_response, header))
        except AuthenticationRejected as error:
            self._pipeline.respond(header, _rejection(error))
            raise

    def token(self, token: bytes) -> None:
        """Process a bare token."""
        if self._bare is not None:
            sent = self._bare._replace(api_key=ApiKey.SASL_AUTHENTICATE, api_version=_AUTHENTICATE_VERSION)
            self._send(sent, {"authBytes": token}, self._on_bare_response)

    def _on_handshake_response(self, request: RequestHeader, frame: bytes) -> None:
        """Respond; a mechanism whose exchange does not name the user is rejected, even if the broker enables it."""
        response = self._pipeline.read_response(request, frame)
        response["mechanisms"] = [mechanism for mechanism in response["mechanisms"] if mechanism in MECHANISMS]
        if not response["errorCode"]:
            if self._mechanism in MECHANISMS:
                self._exchange = SaslExchange(self._mechanism, self._subject_claim)
            else:
                response["errorCode"] = int(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        self._pipeline.send(request, response)
        if self.takes_tokens and response["errorCode"]:  # as a broker, which closes the connection
            raise ChannelError("authentication", f"SaslHandshake v0 is rejected with error {response['errorCode']}")
        self._end()

    def _send(self, sent: RequestHeader, request: Message, handle: Handler) -> None:
        """Send a message of the exchange."""
        if self._exchange is not None:
            self._exchange.on_client_message(request["authBytes"])
        self._pipeline.call(sent, request, handle)

    def _on_authenticate_response(self, client: RequestHeader, request: RequestHeader, frame: bytes) -> None:
        """Respond in the version of the client's own header."""
        try:
            response = self._accepted(self._pipeline.read_response(request, frame))
        except AuthenticationRejected as error:
            self._pipeline.send(client, _rejection(error))
            raise
        self._pipeline.send(client, response)
        self._end()

    def _on_bare_response(self, request: RequestHeader, frame: bytes) -> None:
        """Respond with the broker's token, which has no field for an error: the connection is closed instead."""
        response = self._accepted(self._pipeline.read_response(request, frame))
        if response["errorCode"]:
            raise ChannelError("authentication", response["errorMessage"] or ErrorCode.SASL_AUTHENTICATION_FAILED.name)
        self._pipeline.send_frame(response["authBytes"])
        if self._exchange is None:
            self._bare = None
        self._end()

    def _accepted(self, response: Message) -> Message:
        """Take what the broker's response tells about the user and the session; return the response for the client."""
        if self._exchange is None or response["errorCode"]:
            self._exchange = None
            return response
        user = self._exchange.on_broker_message(response["authBytes"])
        if user is None:
            return response
        if self.user is not None and user != self.user:
            raise AuthenticationRejected("the user of a connection cannot change")
        self.user, self._exchange = user, None
        lifetime_ms = response.get("sessionLifetimeMs", 0)
        if lifetime_ms <= 0:
            self._session_ends_at = None
            return response
        self._session_ends_at = self._now() + lifetime_ms
        return {**response, "sessionLifetimeMs": max(lifetime_ms - self._margin_ms, lifetime_ms // 2, 1)}


def _rejection(error: AuthenticationRejected) -> Message:
    return {"errorCode": int(ErrorCode.SASL_AUTHENTICATION_FAILED), "errorMessage": str(error)}
