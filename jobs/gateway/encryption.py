"""TLS between clients and the gateway, and between the gateway and brokers."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from quota.errors import BadInput
from quota.kafka.brokers.connection import tls_context
from quota.settings.gateway import GatewaySettings
from quota.settings.security.clients import Security
from quota.settings.security.files import secret_value


@dataclass(frozen=True, slots=True)
class Encryption:
    """TLS on both sides; None for a side in plain text."""

    clients: ssl.SSLContext | None = None
    brokers: ssl.SSLContext | None = None


def make_encryption(settings: GatewaySettings, brokers: Security) -> Encryption:
    """Read the certificates."""
    if brokers.has_tls and not brokers.has_sasl and brokers.ssl_certificate:
        raise BadInput(
            "gateway: all clients would become the principal of the gateway's own certificate, because client "
            "certificates cannot be forwarded; use a listener with SASL_SSL for the gateway (docs/how-to/gateway.md)"
        )
    return Encryption(_for_clients(settings), tls_context(brokers))


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


def _for_clients(settings: GatewaySettings) -> ssl.SSLContext | None:
    if not settings.ssl_certificate_location:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
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


def _reason(error: OSError) -> str:
    reason = getattr(error, "reason", None) or error.strerror or str(error)
    return str(reason).replace("_", " ").lower()
