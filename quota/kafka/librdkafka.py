"""librdkafka's clients: their configuration, their errors, and a client that is replaced if it is lost."""

import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Generic, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from quota.errors import BadInput, ClusterError, MutationQuotaError
from quota.kafka.brokers.tokens import TokenFunction, credentials_in, fetch_token
from quota.kafka.timing import Backoff, Deadline
from quota.settings.connection import Connection, check_not_owned
from quota.settings.secrets import mask_values

_log = logging.getLogger(__name__)

C = TypeVar("C")
K = TypeVar("K")
T = TypeVar("T")

_LOST_SECONDS = 10.0

TRANSPORT_ERRORS = frozenset({KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN})  # noqa: SLF001
"""librdkafka's errors for any trouble with all brokers; they do not name the cause."""
UNDELIVERED = TRANSPORT_ERRORS | {KafkaError._MSG_TIMED_OUT}  # noqa: SLF001
"""librdkafka's errors for a record that is valid but could not be delivered."""
_NO_RESPONSE = UNDELIVERED | {KafkaError._UNKNOWN_PARTITION, KafkaError._NOENT}  # noqa: SLF001
"""These, and those for a partition that has no leader in the metadata that the client has."""

_CAUSE_POLL_SECONDS = 0.1
_CAUSE_SECONDS = 3.0
"""How long a second client tries to connect, to determine why the cluster cannot be reached [s]."""

_STATE = re.compile(r" \(after \d+ms in state \w+\)")
_BOOTSTRAP = re.compile(r"^\S+/bootstrap: ")
"""Parts of librdkafka's messages that are of no use to an operator."""


class KeptClient(Generic[C]):
    """A client that is replaced if it fails and has had no response for ten seconds. Thread-safe.

    Since version 2.10 of librdkafka, a client may never connect again after it received metadata without brokers, which
    the last broker of a cluster sends while it stops (https://github.com/confluentinc/librdkafka/issues/5301). Such a
    client cannot be told from one whose cluster does not respond. One that was not used for ten seconds may be replaced
    at its first failure, which costs a connection.
    """

    def __init__(self, make: Callable[[], C]) -> None:
        """Make the client; `make` is called again to replace it."""
        self._make = make
        self.client = make()
        self._responded_at = time.monotonic()
        self._lock = threading.Lock()

    @contextmanager
    def reporting(self) -> Iterator[C]:
        """Yield the client for calls inside the block, whose outcome is reported."""
        client = self.client
        try:
            yield client
        except KafkaException as error:
            self.report(client, error.args[0])
            raise
        self.report(client, None)

    def results(self, client: C, futures: Mapping[K, Future[T]]) -> tuple[dict[K, T], dict[K, KafkaError]]:
        """Wait for the futures of a call of the client; return their results, and the errors of the others."""
        results: dict[K, T] = {}
        errors: dict[K, KafkaError] = {}
        for name, future in futures.items():
            error = future.exception()  # raised, it would hold this client in a cycle with its future
            if isinstance(error, KafkaException):
                errors[name] = error.args[0]
            else:
                results[name] = future.result()
            self.report(client, errors.get(name))
        return results, errors

    def report(self, client: C, error: KafkaError | None) -> None:
        """Take the error of a call or a record, or None for success, and replace the client if it may be lost.

        The caller must still hold the client: calls in progress fail when the last reference to it goes.
        """
        if error is None or error.code() not in _NO_RESPONSE:
            self._responded_at = time.monotonic()
            return
        with self._lock:
            if client is not self.client or time.monotonic() - self._responded_at < _LOST_SECONDS:
                return
            try:
                self.client = self._make()
            except (KafkaException, MutationQuotaError) as problem:  # such as a certificate that is being replaced
                _log.debug("cannot replace a client: %s", problem)
            self._responded_at = time.monotonic()


def client_config(connection: Connection, overrides: Mapping[str, str | float] | None = None) -> dict[str, Any]:
    """Return librdkafka's configuration for a cluster.

    librdkafka's own log stays quiet: errors that matter reach the caller as exceptions.
    """
    own = {"log_level": 2, **(overrides or {})}
    if more := connection.security.more_librdkafka:
        check_not_owned(more, ("bootstrap.servers", "metadata.broker.list", *own))
        _check_properties(connection)
    return {**login_config(connection), **own}


def login_config(connection: Connection) -> dict[str, Any]:
    """Return the servers and the security of librdkafka's configuration for a cluster."""
    security = connection.security
    return connection.librdkafka() | ({"oauth_cb": TokenFunction(security)} if security.token_function else {})


@lru_cache
def _check_properties(connection: Connection) -> None:
    """Check, with a client without servers, that librdkafka accepts the further properties of the settings."""
    more = dict(connection.security.more_librdkafka)
    config = {**login_config(connection), "log_level": 2}
    del config["bootstrap.servers"]
    try:
        AdminClient(config)
    except (KafkaException, TypeError) as error:  # a TypeError for a property that is a function
        text = reason(error) if isinstance(error, KafkaException) else str(error)
        raise BadInput(f"librdkafka rejects a property: {mask_values(text, more.values())}") from None


def reason(error: KafkaException | KafkaError) -> str:
    """Return the message of an error."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    return str(cause.str() if isinstance(cause, KafkaError) else cause)


@contextmanager
def cluster_errors(
    action: str, connection: Connection, hint: str = "", overrides: Mapping[str, str | float] | None = None
) -> Iterator[None]:
    """Turn a KafkaException into a ClusterError: "cannot `action`: the reason`hint`".

    If a transport error hides its cause, such as a wrong password or an unknown certificate, another client connects to
    find it, for some seconds. By default the hint is that for a cluster that does not answer; with TLS or SASL
    there is none, as the reason is sufficient.
    """
    try:
        yield
    except KafkaException as error:
        cause = reason(error)
        if error.args[0].code() in TRANSPORT_ERRORS:
            try:
                config = client_config(connection, overrides)
                cause = _cause(error, config)
            except ClusterError as problem:  # there is no token
                raise ClusterError(f"cannot {action}: {problem}") from None
            if config.get("security.protocol") == "PLAINTEXT":
                hint = hint or connection.advice
        raise ClusterError(f"cannot {action}: {cause.removesuffix('.')}{hint}") from None


def retry(call: Callable[[], T], deadline: Deadline, codes: Collection[int] | None = None) -> T:
    """Make a call, and retry it until it succeeds."""
    pauses = Backoff()
    while True:
        try:
            return call()
        except KafkaException as error:
            if deadline.has_passed or (codes is not None and error.args[0].code() not in codes):
                raise
        time.sleep(min(pauses.next(), deadline.left()))


def _cause(error: KafkaException, config: Mapping[str, Any]) -> str:
    """Return why no broker can be reached."""
    if credentials := credentials_in(config):
        fetch_token(credentials, _CAUSE_SECONDS)
    reported: list[KafkaError] = []
    client_options: dict[str, Any] = {**config, "error_cb": reported.append}
    client = AdminClient(client_options)
    deadline = Deadline(_CAUSE_SECONDS)
    while not deadline.has_passed:
        client.poll(_CAUSE_POLL_SECONDS)
        for cause in reported:
            if cause.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
                return _shortened(reason(cause), config)
    return _shortened(reason(error), config)


def _shortened(text: str, config: Mapping[str, Any]) -> str:
    """Return a reason without librdkafka's timing, and without the only server, which the error names anyway."""
    text = _STATE.sub("", text)
    return text if "," in config["bootstrap.servers"] else _BOOTSTRAP.sub("", text)
