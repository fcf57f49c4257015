"""TLS between clients and the gateway, and between the gateway and brokers."""

import logging
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from quota.errors import BadInput
from quota.kafka.brokers.connection import tls_context
from quota.settings.gateway import GatewaySettings
from quota.settings.security.clients import Security
from quota.settings.security.files import secret_file, secret_value

_log = logging.getLogger(__name__)

_BUFFER_BYTES = 16 * 1024
"""The size of a TLS record. `asyncio` allocates 256 KiB for each connection, before its handshake."""


@dataclass(frozen=True, slots=True)
class Encryption:
    """TLS on both sides; None for a side in plain text."""

    certificate: "Certificate | None" = None
    brokers: ssl.SSLContext | None = None

    @property
    def clients(self) -> ssl.SSLContext | None:
        """The context of connections from clients."""
        return self.certificate.context if self.certificate else None


class Certificate:
    """The certificate of the gateway. Its files are read again when they change, for the handshakes from then on."""

    def __init__(self, settings: GatewaySettings) -> None:
        """Read the files.

        Raises:
            BadInput: They cannot be used.
        """
        self._settings = settings
        self._files = self._state()
        self.context = self._newest = self._load()
        """The context of the listeners; each handshake continues with the newest certificate."""
        self.context.sni_callback = lambda connection, _name, _context: setattr(connection, "context", self._newest)

    def refresh(self) -> None:
        """Read the files again if they have changed; if they cannot be used, the certificate in use stays."""
        files = self._state()
        if files == self._files:
            return
        self._files = files
        try:
            self._newest = self._load()
        except BadInput as error:
            _log.warning("the earlier certificate remains in use: %s", error)
        else:
            _log.info("gateway: the certificate %s was read again", self._settings.ssl_certificate_location)

    def _load(self) -> ssl.SSLContext:
        context, settings = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), self._settings
        try:
            password = secret_value(settings.ssl_key_password)
        except ValueError as error:
            raise BadInput(f"gateway.ssl_key_password: {error}") from None
        try:
            context.load_cert_chain(settings.ssl_certificate_location, settings.ssl_key_location, password)
        except (ssl.SSLError, OSError) as error:
            raise BadInput(
                f"gateway.ssl_certificate_location {settings.ssl_certificate_location} and gateway.ssl_key_location "
                f"{settings.ssl_key_location} cannot be used together: {_reason(error)}"
            ) from None
        return context

    def _state(self) -> list[tuple[int, int] | None]:
        """Return what changes when the files do, also if they are replaced by links to others."""
        states: list[tuple[int, int] | None] = []
        settings = self._settings
        files = (settings.ssl_certificate_location, settings.ssl_key_location, secret_file(settings.ssl_key_password))
        for path in filter(None, files):
            try:
                found = Path(path).stat()
            except OSError:
                states.append(None)
            else:
                states.append((found.st_mtime_ns, found.st_ino))
        return states


def make_encryption(settings: GatewaySettings, brokers: Security) -> Encryption:
    """Read the certificates."""
    if brokers.has_tls and not brokers.has_sasl and brokers.ssl_certificate:
        raise BadInput(
            "gateway: all clients would become the principal of the gateway's own certificate, because client "
            "certificates cannot be forwarded; use a listener with SASL_SSL for the gateway (docs/how-to/gateway.md)"
        )
    SSLProtocol.max_size = _BUFFER_BYTES
    return Encryption(Certificate(settings) if settings.ssl_certificate_location else None, tls_context(brokers))


@contextmanager
def certificate_requests(context: ssl.SSLContext) -> Iterator[list[str]]:
    """Yield a list to which an entry is added when a broker requests a client's certificate.

    `ssl` has no public interface for this.
    """
    requests: list[str] = []

    def note(_connection: object, _direction: str, _version: object, _content: object, kind: object, _: bytes) -> None:
        name = getattr(kind, "name", "")
        if name == "CERTIFICATE_REQUEST":
            requests.append(name)

    context._msg_callback = note  # type: ignore[attr-defined]  # noqa: SLF001
    try:
        yield requests
    finally:
        context._msg_callback = None  # type: ignore[attr-defined]  # noqa: SLF001


def _reason(error: OSError) -> str:
    reason = getattr(error, "reason", None) or error.strerror or str(error)
    return str(reason).replace("_", " ").lower()
