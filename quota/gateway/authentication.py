"""A client's authentication, in the messages of SaslHandshake and SaslAuthenticate that pass through the gateway."""

from quota.errors import ErrorCode
from quota.gateway.sasl import MECHANISMS, AuthenticationRejected, SaslExchange
from quota.wire.codec import Message


class Authentication:
    """Reads a client's SASL exchanges: the first one, and those of re-authentication (KIP-368)."""

    def __init__(self, subject_claim: str, margin_ms: int) -> None:
        """Start without a user.

        Clients re-authenticate `margin_ms` earlier than the broker requires, so that none is cut off while it waits.
        """
        self._subject_claim = subject_claim
        self._margin_ms = margin_ms
        self._mechanism = ""
        self._exchange: SaslExchange | None = None
        self.user: str | None = None
        """The principal's name, once the broker has accepted it."""
        self.session_ends_at: int | None = None
        """The time at which the broker closes the connection unless the client re-authenticates [ms, the caller's
        clock]; None if it never does."""

    @property
    def is_exchanging(self) -> bool:
        """Whether an exchange is not complete."""
        return self._exchange is not None

    def handshake(self, request: Message) -> None:
        """Process a SaslHandshake request."""
        self._mechanism = request["mechanism"]

    def on_handshake_response(self, response: Message) -> Message:
        """Process the broker's SaslHandshake response; return the response for the client.

        A mechanism whose exchange does not name the user is rejected, even if the broker enables it.
        """
        mechanisms = [mechanism for mechanism in response["mechanisms"] if mechanism in MECHANISMS]
        if response["errorCode"]:
            return {**response, "mechanisms": mechanisms}
        if self._mechanism not in MECHANISMS:
            return {**response, "errorCode": int(ErrorCode.UNSUPPORTED_SASL_MECHANISM), "mechanisms": mechanisms}
        self._exchange = SaslExchange(self._mechanism, self._subject_claim)
        return {**response, "mechanisms": mechanisms}

    def authenticate(self, request: Message) -> None:
        """Process a SaslAuthenticate request."""
        if self._exchange is not None:
            self._exchange.on_client_message(request["authBytes"])

    def accepted_token(self, response: Message) -> str | None:
        """Return the id of the delegation token that a SaslAuthenticate response accepts, if it does.

        Its owner must be set before the response is processed.
        """
        return None if self._exchange is None or response["errorCode"] else self._exchange.accepted_token()

    def set_owner(self, owner: str | None, problem: str) -> None:
        """Take the owner of the delegation token, or why it is not known."""
        if self._exchange is not None:
            self._exchange.set_owner(owner, problem)

    def on_authenticate_response(self, response: Message, now: int) -> Message:
        """Process the broker's SaslAuthenticate response at `now` [ms]; return the response for the client."""
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
            self.session_ends_at = None
            return response
        self.session_ends_at = now + lifetime_ms
        return {**response, "sessionLifetimeMs": max(lifetime_ms - self._margin_ms, lifetime_ms // 2, 1)}


def rejection(error: AuthenticationRejected) -> Message:
    """Return the response to a rejected SaslAuthenticate request."""
    return {"errorCode": int(ErrorCode.SASL_AUTHENTICATION_FAILED), "errorMessage": str(error)}
