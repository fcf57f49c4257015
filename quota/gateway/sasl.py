"""Who a client is: its SASL exchange with the broker, overheard. The broker alone decides whether it is accepted."""

import base64
import binascii
import json
import re

from quota.errors import MutationQuotaError

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The mechanisms whose exchange names the user."""

# Kafka's own patterns (ScramMessages, OAuthBearerClientInitialResponse).
_SASL_NAME = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE = rb"[\x01-\x2b\x2d-\x7f]+"
_CLIENT_FIRST = re.compile(
    rb"n,(?:a=(?P<authzid>" + _SASL_NAME + rb"))?,(?:m=" + _VALUE + rb",)?"
    rb"n=(?P<user>" + _SASL_NAME + rb"),r=[\x21-\x2b\x2d-\x7e]+(?P<extensions>(?:,[A-Za-z]+=" + _VALUE + rb")*)"
)
_BEARER = re.compile(
    rb"n,(?:a=[^,]*)?,\x01(?:[A-Za-z]+=[^\x01]*\x01)*?auth=bearer +(?P<token>[-_.A-Za-z0-9=~+/]+)\x01", re.IGNORECASE
)
_SCRAM_ROUNDS = 2
_PLAIN_PARTS = 3
_JWT_PARTS = 3


class AuthenticationRefused(MutationQuotaError):
    """An exchange that the gateway does not pass on, or cannot tell the user of; the message is for the client."""


class SaslExchange:
    """One exchange by one mechanism."""

    def __init__(self, mechanism: str, subject_claim: str = "sub") -> None:
        """Begin an exchange.

        Args:
            mechanism: one of `MECHANISMS`, which the broker has accepted.
            subject_claim: the claim of an OAUTHBEARER token that names the user.
        """
        self._mechanism = mechanism
        self._subject_claim = subject_claim
        self._rounds = 0
        self._user: str | None = None

    def hear_client(self, auth_bytes: bytes) -> None:
        """Take a message of the client.

        Raises:
            AuthenticationRefused: it authenticates by a delegation token, which does not tell whose it is.
        """
        self._rounds += 1
        if self._rounds > 1:
            return
        match self._mechanism:
            case "PLAIN":
                self._user = _plain_user(auth_bytes)
            case "OAUTHBEARER":
                self._user = _bearer_user(auth_bytes, self._subject_claim)
            case _:
                self._user = _scram_user(auth_bytes)

    def hear_broker(self, auth_bytes: bytes) -> str | None:
        """Take an answer of the broker that is no error; return the user once the exchange is complete.

        Raises:
            AuthenticationRefused: the broker has accepted a client whose name could not be read.
        """
        if self._mechanism.startswith("SCRAM") and self._rounds < _SCRAM_ROUNDS:
            return None
        if self._mechanism == "OAUTHBEARER" and auth_bytes:  # the reason why the token is not accepted
            return None
        if not self._user:
            raise AuthenticationRefused(
                f"the broker accepts this client, but the gateway cannot read its name from {self._mechanism}"
            )
        return self._user


def _plain_user(message: bytes) -> str | None:
    parts = message.split(b"\0")
    return _text(parts[1]) if len(parts) == _PLAIN_PARTS and parts[0] in {b"", parts[1]} else None


def _scram_user(message: bytes) -> str | None:
    found = _CLIENT_FIRST.fullmatch(message)
    if found is None:
        return None
    for extension in found["extensions"].split(b","):
        name, _, value = extension.partition(b"=")
        if name.lower() == b"tokenauth" and value.lower() != b"false":
            raise AuthenticationRefused(
                "clients cannot authenticate by a delegation token at a mutation quota gateway, which cannot see whose "
                "it is; use the user's own credentials"
            )
    return found["user"].replace(b"=2C", b",").replace(b"=3D", b"=").decode()


def _bearer_user(message: bytes, claim: str) -> str | None:
    found = _BEARER.match(message)
    parts = found["token"].split(b".") if found else []
    if len(parts) != _JWT_PARTS:
        return None
    try:
        payload = base64.urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4))
        subject = json.loads(payload).get(claim)
    except (binascii.Error, ValueError, AttributeError, RecursionError):
        return None
    return subject if isinstance(subject, str) else None


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
