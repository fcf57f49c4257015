"""The identity of a client, read from its SASL exchange with the broker. Only the broker accepts or rejects it."""

import re

from quota.gateway.pipeline import ChannelError
from quota.wire.access_tokens import read_bearer_message, token_claim

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
            self._user = token_claim(read_bearer_message(auth_bytes), self._subject_claim)
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
            raise AuthenticationRejected(
                f"the broker accepts this client, but the gateway cannot read its name from {self._mechanism}"
            )
        return self._user


def _plain_user(message: bytes, claim: str) -> str | None:
    parts = message.split(b"\0")
    if len(parts) != _PLAIN_PARTS or parts[0] not in {b"", parts[1]}:
        return None
    if parts[1] == _IN_PASSWORD:
        return token_claim(parts[2].removeprefix(_IN_PASSWORD + b":"), claim)
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
