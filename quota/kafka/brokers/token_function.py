"""Functions that return access tokens: named in the settings, and called by librdkafka."""

import importlib
import logging
import time
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from quota.errors import BadInput, ClusterError
from quota.kafka.brokers.tokens import Token
from quota.settings.security.clients import Security

_log = logging.getLogger(__name__)

_CONFIG = "sasl.oauthbearer.config"
_LEAST_SECONDS = 10.0
"""The minimum remaining lifetime of a token that is used [s]: a client may be created some time after its
configuration."""

_PRINCIPAL, _EXTENSIONS = 2, 3
"""Indexes in the tuple that a function returns."""

_SETTING = "sasl_oauthbearer_token_function"
_SHAPE = "(token, expiry in epoch seconds[, principal[, extensions]])"
_MAX_SHOWN = 300

TokenCallback: TypeAlias = Callable[[str], tuple[Any, ...]]
"""The type of confluent-kafka's `oauth_cb`: takes `sasl.oauthbearer.config`, and returns `_SHAPE`."""


class TokenFunction:
    """The token function of the settings. It is called once at construction, and the first call returns that token."""

    def __init__(self, security: Security) -> None:
        """Load the function, and call it."""
        self._name = security.token_function
        self._config = dict(security.more_librdkafka).get(_CONFIG, "")
        self._callback = _load(self._name)
        self._first: tuple[Any, ...] | None = call(self._callback, self._name, self._config)

    def __call__(self, _config: str | None = None) -> tuple[Any, ...]:
        """Return a token and its expiry. An error is logged, since librdkafka does not pass it on."""
        first, self._first = self._first, None
        if first is not None and first[1] > time.time() + _LEAST_SECONDS:
            return first
        try:
            return call(self._callback, self._name, self._config)
        except ClusterError as error:
            _log.warning("%s", error)
            raise


def call(callback: TokenCallback, name: str, config: str = "") -> tuple[Any, ...]:
    """Call a function for its token."""
    try:
        found = callback(config)
    except ClusterError:  # of a TokenFunction, which says all of this
        raise
    except Exception as error:  # noqa: BLE001 it is not ours
        text = " ".join(str(error).split())[:_MAX_SHOWN]
        raise ClusterError(f"cannot get a token by {name}: {type(error).__name__}: {text}") from None
    if not (isinstance(found, tuple) and len(found) > 1 and isinstance(found[0], str)):
        raise ClusterError(f"cannot get a token by {name}: expected {_SHAPE}, got {type(found).__name__}")
    if isinstance(found[1], bool) or not isinstance(found[1], int | float):
        raise ClusterError(f"cannot get a token by {name}: the expiry is {type(found[1]).__name__}, expected seconds")
    return found


def to_token(found: tuple[Any, ...]) -> Token:
    """Convert the result of a function to a token."""
    principal = found[_PRINCIPAL] if len(found) > _PRINCIPAL else ""
    extensions = found[_EXTENSIONS] if len(found) > _EXTENSIONS else {}
    return Token(found[0], str(principal or ""), dict(extensions or {}))


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
