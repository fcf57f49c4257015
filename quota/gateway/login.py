"""A channel's SASL exchanges, which name the client's user: only the broker accepts or rejects it.

They are SaslHandshake, and SaslAuthenticate or the bare tokens that follow version 0 of it.

The broker is asked in versions that tell how long a session lasts (KIP-368), whatever the client's version.
"""

import re
from collections.abc import Callable
from functools import partial

from quota.errors import ErrorCode
from quota.gateway.context import ChannelIO, GatewayContext
from quota.gateway.pipeline import ChannelError, Handler, Pipeline
from quota.records.request import ANONYMOUS
from quota.wire.access_tokens import read_bearer_message, token_user
from quota.wire.headers import RequestHeader
from quota.wire.message_codec import Message
from quota.wire.protocol import ApiKey

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The mechanisms whose exchange names the user."""

# Kafka's own patterns (ScramMessages).
_SASL_NAME = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE = rb"[\x01-\x2b\x2d-\x7f]+"
_CLIENT_FIRST = re.compile(
    rb"n,(?:a=(?P<authzid>" + _SASL_NAME + rb"))?,(?:m=" + _VALUE + rb",)?"
    rb"n=(?P<user>" + _SASL_NAME + rb"),r=[\x21-\x2b\x2d-\x7e]+(?P<extensions>(?:,[A-Za-z]+=" + _VALUE + rb")*)"
)
_IN_PASSWORD = b"$accessToken"
"""The name of a user who is named by an access token in the place of the password: Strimzi's OAuth over PLAIN."""
_SCRAM_ROUNDS = 2
_PLAIN_PARTS = 3
_HANDSHAKE_VERSION = 1
_AUTHENTICATE_VERSION = 1
"""The first versions that have SaslAuthenticate after the handshake, and the lifetime of a session."""


class AuthenticationRejected(ChannelError):
    """An exchange that is not forwarded, or whose user is unknown; the message is for the client, too."""

    def __init__(self, message: str) -> None:
        super().__init__("authentication", message)


class SaslExchange:
    """One SASL exchange with one mechanism."""

    def __init__(self, mechanism: str, subject_claim: str = "sub") -> None:
        """Start an exchange by one of `MECHANISMS`; a claim of an OAUTHBEARER token names the user."""
        self._mechanism = mechanism
        self._subject_claim = subject_claim
        self._rounds = 0
        self._user: str | None = None

    def on_client_message(self, auth_bytes: bytes) -> None:
        """Process a message of the client; one with a delegation token is rejected."""
        self._rounds += 1
        if self._mechanism == "OAUTHBEARER":  # a broker accepts another token after one that it rejected
            self._user = token_user(read_bearer_message(auth_bytes), self._subject_claim)
        elif self._rounds == 1:
            by_plain = self._mechanism == "PLAIN"
            self._user = _plain_user(auth_bytes, self._subject_claim) if by_plain else _scram_user(auth_bytes)

    def on_broker_message(self, auth_bytes: bytes) -> str | None:
        """Process a broker's response without an error; return the user once the exchange is complete."""
        if self._mechanism.startswith("SCRAM") and self._rounds < _SCRAM_ROUNDS:
            return None
        if self._mechanism == "OAUTHBEARER" and auth_bytes:  # the reason why the token is not accepted
            return None
        if not self._user:
            by = f" by gateway.oauth_subject_claim={self._subject_claim}" if self._mechanism == "OAUTHBEARER" else ""
            raise AuthenticationRejected(
                f"the broker accepts this client, but the gateway cannot read its name from {self._mechanism}{by}"
            )
        return self._user


def _plain_user(message: bytes, claim: str) -> str | None:
    parts = message.split(b"\0")
    if len(parts) != _PLAIN_PARTS or parts[0] not in {b"", parts[1]}:
        return None
    if parts[1] == _IN_PASSWORD:
        return token_user(parts[2].removeprefix(_IN_PASSWORD + b":"), claim)
    try:
        return parts[1].decode()
    except UnicodeDecodeError:
        return None


def _scram_user(message: bytes) -> str | None:
    client_first = _CLIENT_FIRST.fullmatch(message)
    if client_first is None:
        return None
    if b"tokenauth=true" in client_first["extensions"].lower().split(b","):
        raise AuthenticationRejected(
            "the mutation quota gateway takes no delegation tokens: log in with the user's own password, or by "
            "OAUTHBEARER"
        )
    return client_first["user"].replace(b"=2C", b",").replace(b"=3D", b"=").decode()


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
