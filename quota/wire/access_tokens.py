"""Access tokens in the SASL exchange OAUTHBEARER (RFC 7628): the client's message, and the claims of a token (JWT)."""

import base64
import binascii
import json
import re
from collections.abc import Mapping

# As Kafka's OAuthBearerClientInitialResponse reads it.
_SASL_NAME = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_MESSAGE = re.compile(rb"n,(?:a=" + _SASL_NAME + rb")?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01")
_AUTH = re.compile(rb"(?i:bearer) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_TRIMMED = "".join(map(chr, range(0x21)))
"""The characters that Java's `trim` removes, as Kafka does with the subject of a signed token."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_JWT_PARTS = 3


def write_bearer_message(token: str, extensions: Mapping[str, str]) -> bytes:
    """Return the client's message with a token and SASL extensions."""
    pairs = {"auth": f"Bearer {token}", **extensions}
    fields = "".join(f"{name}={value}\x01" for name, value in pairs.items())
    return f"n,,\x01{fields}\x01".encode()


def read_bearer_message(message: bytes) -> bytes:
    """Return the token that Kafka reads in a client's message, or nothing if it is not the only one."""
    match = _MESSAGE.fullmatch(message)
    pairs = match["pairs"].split(b"\x01")[:-1] if match else []
    given = [value for name, _, value in (pair.partition(b"=") for pair in pairs) if name == b"auth"]
    auth = _AUTH.fullmatch(given[0]) if len(given) == 1 else None
    return auth["token"] if auth else b""


def token_user(token: bytes, claims: str) -> str | None:
    """Return the user whom a signed or unsigned token names by the first of these claims that it has; None for none.

    The claims are separated by commas. One in braces may have a prefix, which the user gets, too:
    `preferred_username,service-account-{client_id}`.
    """
    parts = token.split(b".")
    if len(parts) != _JWT_PARTS:
        return None
    try:
        payload = base64.urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4))
        given = json.loads(payload.decode())
        named = [part.strip().removesuffix("}").rpartition("{") for part in claims.split(",")]
        prefix, subject = next(((prefix, given[claim]) for prefix, _, claim in named if given.get(claim, "") != ""))
    except (binascii.Error, ValueError, AttributeError, RecursionError, StopIteration):
        return None
    if not isinstance(subject, str) or subject != subject.strip(_TRIMMED):  # Kafka trims it only for some tokens
        return None
    return None if _SURROGATE.search(subject) else prefix + subject
