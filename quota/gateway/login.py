"""A channel's SASL exchanges: SaslHandshake, and SaslAuthenticate or the bare tokens that follow version 0 of it.

The broker is asked in versions that tell how long a session lasts (KIP-368), whatever the client's version.
"""

from collections.abc import Callable
from functools import partial

from quota.errors import ErrorCode
from quota.gateway.authentication import Authentication, rejection
from quota.gateway.context import ChannelError, ChannelIO, GatewayContext
from quota.gateway.pipeline import Pipeline
from quota.gateway.sasl import AuthenticationRejected
from quota.records.request import ANONYMOUS
from quota.wire.api_keys import ApiKey
from quota.wire.codec import Message
from quota.wire.headers import RequestHeader

_HANDSHAKE_VERSION = 1
_AUTHENTICATE_VERSION = 1
"""The first versions that have SaslAuthenticate after the handshake, and the lifetime of a session."""


class Login:
    """Passes the SASL messages of one channel on, and learns the user from them."""

    def __init__(self, context: GatewayContext, pipeline: Pipeline, io: ChannelIO, end: Callable[[], None]) -> None:
        """Call `end` after each response."""
        self._protocol = context.protocol
        self._pipeline = pipeline
        self._now = io.now
        self._find_owner = io.find_owner
        self._end = end
        self._waiting: Callable[[], None] | None = None
        self._authentication = Authentication(context.subject_claim, context.rules.decision_timeout_ms)
        if not context.authenticates:
            self.identify(ANONYMOUS)
        self._bare: RequestHeader | None = None

    def identify(self, user: str) -> None:
        """Take a name that no SASL exchange tells."""
        self._authentication.user = user

    @property
    def user(self) -> str | None:
        """The principal's name, once the broker has accepted it."""
        return self._authentication.user

    @property
    def takes_tokens(self) -> bool:
        """Whether the client's next frame is a bare token: a length and the mechanism's bytes, without a header."""
        return self._bare is not None

    def session_left_ms(self) -> int | None:
        """Return the time until the broker closes the connection [ms]; None if it never does."""
        ends_at = self._authentication.session_ends_at
        return None if ends_at is None else ends_at - self._now()

    def handshake(self, header: RequestHeader, request: Message) -> None:
        """Process a SaslHandshake request."""
        self._authentication.handshake(request)
        if header.api_version < _HANDSHAKE_VERSION:
            self._bare = header
        self._pipeline.call(header._replace(api_version=_HANDSHAKE_VERSION), request, self._on_handshake_response)

    def authenticate(self, header: RequestHeader, request: Message) -> None:
        """Process a SaslAuthenticate request."""
        self._authentication.authenticate(request)
        sent = header._replace(api_version=max(header.api_version, _AUTHENTICATE_VERSION))
        self._pipeline.call(sent, request, partial(self._on_authenticate_response, header))

    def token(self, token: bytes) -> None:
        """Process a bare token."""
        if self._bare is None:
            return
        request = {"authBytes": token}
        self._authentication.authenticate(request)
        header = self._bare._replace(api_key=ApiKey.SASL_AUTHENTICATE, api_version=_AUTHENTICATE_VERSION)
        self._pipeline.call(header, request, self._on_token_response)

    def on_owner(self, owner: str | None, problem: str) -> None:
        """Take the owner of the delegation token that the broker has accepted, or why it is not known."""
        respond, self._waiting = self._waiting, None
        self._authentication.set_owner(owner, problem)
        if respond is not None:
            respond()

    def _on_handshake_response(self, request: RequestHeader, frame: bytes) -> None:
        response = self._authentication.on_handshake_response(self._pipeline.read_response(request, frame))
        self._pipeline.send(request, response)
        if self.takes_tokens and response["errorCode"]:  # as a broker, which closes the connection
            raise ChannelError("authentication", f"SaslHandshake v0 is rejected with error {response['errorCode']}")
        self._end()

    def _on_authenticate_response(self, client: RequestHeader, request: RequestHeader, frame: bytes) -> None:
        response = self._pipeline.read_response(request, frame)
        self._once_owned(response, partial(self._respond, client, response))

    def _on_token_response(self, request: RequestHeader, frame: bytes) -> None:
        response = self._pipeline.read_response(request, frame)
        self._once_owned(response, partial(self._respond_bare, response))

    def _once_owned(self, response: Message, respond: Callable[[], None]) -> None:
        """Respond, at once or when the owner of the client's delegation token is known."""
        token_id = self._authentication.accepted_token(response)
        if token_id is None:
            respond()
        else:
            self._waiting = respond
            self._find_owner(token_id)

    def _respond(self, client: RequestHeader, response: Message) -> None:
        """Respond in the version of the client's own header."""
        try:
            response = self._authentication.on_authenticate_response(response, self._now())
        except AuthenticationRejected as error:
            self._pipeline.send(client, rejection(error))
            raise ChannelError("authentication", str(error)) from None
        self._pipeline.send(client, response)
        self._end()

    def _respond_bare(self, response: Message) -> None:
        """Respond with the broker's token, which has no field for an error: the connection is closed instead."""
        try:
            response = self._authentication.on_authenticate_response(response, self._now())
        except AuthenticationRejected as error:
            raise ChannelError("authentication", str(error)) from None
        if response["errorCode"]:
            raise ChannelError("authentication", response["errorMessage"] or ErrorCode.SASL_AUTHENTICATION_FAILED.name)
        self._pipeline.send_frame(response["authBytes"])
        if not self._authentication.is_exchanging:
            self._bare = None
        self._end()
