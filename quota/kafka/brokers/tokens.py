"""Access tokens: from a token server, for connections that librdkafka does not open, or by a function of the user's."""

import base64
import importlib
import logging
import math
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import BadStatusLine, HTTPException, IncompleteRead
from pathlib import Path
from typing import Any, TypeAlias, cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

import msgspec

from quota.errors import BadInput, ClusterError
from quota.settings.connection import ClientCredentials, Security, extension_pairs
from quota.wire.access_tokens import token_user

_log = logging.getLogger(__name__)

_MAX_RESPONSE_BYTES = 1024 * 1024
_MAX_SHOWN = 300

_CONFIG = "sasl.oauthbearer.config"
_LEAST_SECONDS = 10.0
"""The minimum remaining lifetime of a token that is used [s]: a client may be created some time after its
configuration."""

_PRINCIPAL, _EXTENSIONS = 2, 3
"""Indexes in the tuple that a function returns."""

_SETTING = "sasl_oauthbearer_token_function"
_SHAPE = "(token, expiry in epoch seconds[, principal[, extensions]])"

TokenCallback: TypeAlias = Callable[[str], tuple[Any, ...]]
"""The type of confluent-kafka's `oauth_cb`: takes `sasl.oauthbearer.config`, and returns `_SHAPE`."""


class _TokenResponse(msgspec.Struct):
    access_token: str
    expires_in: Any = 0
    """The lifetime [s], which the server need not tell; some send it as text."""


class _Rejection(msgspec.Struct):
    error: str
    error_description: str = ""


@dataclass(frozen=True, slots=True)
class Token:
    """An access token; `repr` leaves it out."""

    value: str = field(repr=False)
    principal: str = ""
    """The principal, if it is known independently of the token's claims."""
    extensions: Mapping[str, str] = field(default_factory=dict)
    """SASL extensions for the brokers."""
    reusable_until: float = 0.0
    """The time until which new connections may use it too: half its lifetime [epoch s]."""

    @property
    def subject(self) -> str:
        """The principal, or else the token's `sub`, by which brokers know the client; empty if neither is known."""
        return self.principal or token_user(self.value.encode(), "sub") or ""


class _NoRedirects(HTTPRedirectHandler):
    """Leaves redirects to the caller as errors: urllib would send the login to whatever host they name."""

    def redirect_request(self, *_args: object) -> None:
        return None


def fetch_token(credentials: ClientCredentials, timeout_seconds: float) -> Token:
    """Ask the token server for a token; a redirect is rejected."""
    url = credentials.token_endpoint_url
    try:
        response = _request_token(credentials, timeout_seconds)
        extensions = extension_pairs(credentials.extensions)
        return Token(response.access_token, extensions=extensions, reusable_until=_reusable_until(response.expires_in))
    except HTTPError as error:
        with error:
            problem = f"{error.code} {_rejection(error) or _shown(error.reason)}"
    except (OSError, ValueError, HTTPException, msgspec.MsgspecError) as error:
        problem = _reason(error)
    raise ClusterError(f"cannot get a token for client {credentials.client_id} from {url}: {problem}")


def _request_token(credentials: ClientCredentials, timeout_seconds: float) -> _TokenResponse:
    form = {"grant_type": "client_credentials"} | ({"scope": credentials.scope} if credentials.scope else {})
    login = base64.b64encode(f"{credentials.client_id}:{credentials.client_secret}".encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Accept": "application/json"}
    request = Request(  # noqa: S310 the settings accept only http and https
        credentials.token_endpoint_url, urlencode(form).encode(), headers, method="POST"
    )
    context = ssl.create_default_context(cadata=credentials.ca or None)
    opener = build_opener(HTTPSHandler(context=context), _NoRedirects)
    with opener.open(request, timeout=timeout_seconds) as response:
        return msgspec.json.decode(response.read(_MAX_RESPONSE_BYTES), type=_TokenResponse)


def _reusable_until(lifetime: Any) -> float:  # noqa: ANN401 whatever the server sends
    """Return when half the lifetime [s] of a new token is over [epoch s]; 0 if the lifetime is not known."""
    try:
        seconds = float(lifetime)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return time.time() + seconds / 2 if math.isfinite(seconds) else 0.0


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    match cause:
        case ssl.SSLCertVerificationError():
            return f"{failure_reason(cause)}; set sasl_oauthbearer_ca_location to the CA to trust"
        case BadStatusLine() | IncompleteRead() if not isinstance(cause, OSError):  # it may have closed the connection
            return "the response is not HTTP, or is truncated"
        case msgspec.MsgspecError():
            return "the response has no access_token; this is not a token endpoint"
        case str():
            return cause
        case _:
            return failure_reason(cause)


def failure_reason(error: BaseException) -> str:
    """Return the reason of a failed connection, for the end of a sentence."""
    match error:
        case TimeoutError():
            return "no answer"
        case EOFError():
            return "it closes the connection, as a listener with another security protocol does"
        case ssl.SSLCertVerificationError(verify_message=message):
            return f"certificate verify failed: {message}"
        case ssl.SSLError(reason=str(text)):
            return f"TLS fails: {text.replace('_', ' ').lower()}"
        case ConnectionRefusedError():
            return "connection refused"
        case _:
            return str(error)


def _rejection(response: HTTPError) -> str:
    """Return the OAuth error in a token server's response; empty if there is none."""
    try:
        rejection = msgspec.json.decode(response.read(_MAX_RESPONSE_BYTES), type=_Rejection)
    except (OSError, HTTPException, msgspec.MsgspecError):
        return ""
    return _shown(
        f"{rejection.error}: {rejection.error_description}" if rejection.error_description else rejection.error
    )


def _shown(text: str) -> str:
    """Return a server's text as one line, for a terminal."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())[:_MAX_SHOWN]


def credentials_in(config: Mapping[str, Any]) -> ClientCredentials | None:
    """Return the client credentials in librdkafka's configuration; None if tokens are obtained in another way."""
    prefix = "sasl.oauthbearer."
    if config.get(f"{prefix}method") != "oidc" or f"{prefix}client.secret" not in config:
        return None
    return ClientCredentials(
        token_endpoint_url=str(config.get(f"{prefix}token.endpoint.url", "")),
        client_id=str(config.get(f"{prefix}client.id", "")),
        client_secret=str(config[f"{prefix}client.secret"]),
        scope=str(config.get(f"{prefix}scope", "")),
        ca=str(config.get("https.ca.pem", "")) or _read_ca(config.get("https.ca.location")),
    )


def _read_ca(location: object) -> str:
    if not isinstance(location, str) or location in {"", "probe"}:
        return ""
    try:
        return Path(location).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ClusterError(f"https.ca.location {location}: {error}") from None


class TokenFunction:
    """The token function of the settings. It is called once at construction, and the first call returns that token."""

    def __init__(self, security: Security) -> None:
        self._name = security.token_function
        self._config = dict(security.more_librdkafka).get(_CONFIG, "")
        self._callback = _load(self._name)
        self._first: tuple[Any, ...] | None = call_function(self._callback, self._name, self._config)

    def __call__(self, _config: str | None = None) -> tuple[Any, ...]:
        """Return a token and its expiry. An error is logged, since librdkafka does not pass it on."""
        first, self._first = self._first, None
        if first is not None and first[1] > time.time() + _LEAST_SECONDS:
            return first
        try:
            return call_function(self._callback, self._name, self._config)
        except ClusterError as error:
            _log.warning("%s", error)
            raise


def call_function(callback: TokenCallback, name: str, config: str = "") -> tuple[Any, ...]:
    """Call a function for its token."""
    try:
        result = callback(config)
    except ClusterError:  # of a TokenFunction, which says all of this
        raise
    except Exception as error:  # noqa: BLE001 it is not ours
        text = " ".join(str(error).split())[:_MAX_SHOWN]
        raise ClusterError(f"cannot get a token by {name}: {type(error).__name__}: {text}") from None
    if not (isinstance(result, tuple) and len(result) > 1 and isinstance(result[0], str)):
        raise ClusterError(f"cannot get a token by {name}: expected {_SHAPE}, got {type(result).__name__}")
    if isinstance(result[1], bool) or not isinstance(result[1], int | float):
        raise ClusterError(f"cannot get a token by {name}: the expiry is {type(result[1]).__name__}, expected seconds")
    return result


def to_token(result: tuple[Any, ...]) -> Token:
    """Convert the result of a function to a token."""
    principal = result[_PRINCIPAL] if len(result) > _PRINCIPAL else ""
    extensions = result[_EXTENSIONS] if len(result) > _EXTENSIONS else {}
    return Token(result[0], str(principal or ""), dict(extensions or {}), _reusable_until(result[1] - time.time()))


def _load(name: str) -> TokenCallback:
    module, _, function = name.partition(":")
    try:
        loaded = getattr(importlib.import_module(module), function)
    except Exception as error:  # noqa: BLE001 whatever the import raises
        text = " ".join(str(error).split())[:_MAX_SHOWN]
        raise BadInput(f"{_SETTING} {name}: {type(error).__name__}: {text}") from None
    if not callable(loaded):
        raise BadInput(f"{_SETTING} {name}: not a function")
    return cast("TokenCallback", loaded)
