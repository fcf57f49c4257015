"""TLS between clients and the gateway, and between the gateway and brokers."""

import logging
import ssl
from asyncio.sslproto import SSLProtocol
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from jobs.gateway.buffers import share_tls_buffer
from jobs.gateway.watched import Watched
from quota.errors import BadInput
from quota.gateway.certificates import end_of, name_of, subject_of
from quota.kafka.brokers.broker_calls import tls_context
from quota.records.request import ANONYMOUS
from quota.settings.connection import Security, is_loopback
from quota.settings.jobs import GatewaySettings
from quota.settings.principals import PrincipalRules
from quota.settings.security import SecuritySettings, read_certificates, secret_file, secret_value

if TYPE_CHECKING:
    from jobs.gateway.issuer import IssuedContexts

_log = logging.getLogger(__name__)

_close = SSLProtocol._fatal_error  # noqa: SLF001
_MODES = {"requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
"""The values of `gateway.ssl_client_auth` that request certificates."""


class ServerCertificate(NamedTuple):
    """What clients' handshakes use: the gateway's certificate, and the CA of theirs."""

    context: ssl.SSLContext
    ends_at: float | None
    """The time until which the certificate is valid [epoch s]; None if it is not known."""


class BrokerSide(NamedTuple):
    """What connections to brokers use."""

    security: Security
    context: ssl.SSLContext | None
    """The context, unless a client's certificate is presented; None in plain text."""


@dataclass(frozen=True, slots=True)
class Encryption:
    """TLS on both sides; a side in plain text has no context."""

    certificate: Watched[ServerCertificate] | None = None
    clients: ssl.SSLContext | None = None
    """The context of the listeners."""
    brokers: Watched[BrokerSide] | None = None
    """The other side; None in plain text."""
    issued: "IssuedContexts | None" = None
    own: bytes = b""
    """The certificate whose name the gateway itself has at brokers (DER), if they identify clients by certificates."""
    rules: PrincipalRules | None = None
    """The rules for users, if certificates identify them."""

    def refresh(self) -> None:
        """Read changed files again, for the handshakes from then on."""
        for watched in (self.certificate, self.brokers, self.issued):
            if watched is not None:
                watched.refresh()

    def user_of(self, certificate: bytes | None) -> str | None:
        """Return the user that a client's certificate identifies (DER); None if certificates identify no users.

        A `BadInput` says that a broker would not accept the name.
        """
        if self.rules is None:
            return None
        if certificate is None:
            return ANONYMOUS
        try:
            name = name_of(subject_of(certificate))
        except ValueError as error:
            raise BadInput(f"the subject of its certificate cannot be read: {error}") from None
        user = self.rules.name(name)
        if user is None:
            raise BadInput(f"no rule of gateway.ssl_principal_mapping_rules applies to {name!r}")
        return user

    async def context_for(self, certificate: bytes | None) -> ssl.SSLContext | None:
        """Return the context of a connection to a broker for a client with a certificate (DER), or without one."""
        if self.issued is None or not certificate:
            return self.brokers.value.context if self.brokers else None
        return await self.issued.context(certificate)


def make_encryption(settings: GatewaySettings, given: SecuritySettings) -> Encryption:
    """Read the certificates, with those for the brokers, and check that the brokers see who the clients are."""
    brokers = given.security
    issues, identifies = bool(settings.ssl_issuer_certificate_location), not brokers.has_sasl
    if identifies and not issues and (brokers.has_tls and brokers.ssl_certificate):
        raise BadInput(
            "gateway: all clients would become the principal of the gateway's own certificate; set "
            "gateway.ssl_issuer_certificate_location, or use a listener with SASL_SSL for the gateway "
            "(docs/how-to/gateway/authentication.md)"
        )
    if identifies and not issues and settings.ssl_client_auth != "none":
        raise BadInput(
            "gateway: all clients would be ANONYMOUS at the brokers; set gateway.ssl_issuer_certificate_location, or "
            "use a listener with SASL_SSL for the gateway (docs/how-to/gateway/authentication.md)"
        )
    if issues and not brokers.has_tls:
        raise BadInput(f"gateway.ssl_issuer_certificate_location needs TLS to the brokers, not {brokers.protocol}")
    if brokers.has_sasl and not settings.ssl_certificate_location and not is_loopback(settings.address):
        _log.warning(
            "clients send passwords and tokens to %s in plaintext, unless they authenticate by SCRAM; set "
            "gateway.ssl_certificate_location",
            settings.address,
        )
    share_tls_buffer()
    SSLProtocol._fatal_error = _close_after_alert  # type: ignore  # noqa: PGH003, SLF001
    certificate, clients = None, None
    if settings.ssl_certificate_location:
        files = settings.ssl_certificate_location, settings.ssl_key_location, settings.ssl_ca_location
        password = secret_file(settings.ssl_key_password)
        certificate = Watched("certificate", [*files, password], lambda: _server_certificate(settings))
        clients = certificate.value.context
        clients.sni_callback = lambda tls, _name, _context: setattr(tls, "context", certificate.value.context)
    to_brokers = Watched("security of connections to brokers", given.files, lambda: _broker_side(given, issues))
    if not issues:
        return Encryption(certificate, clients, to_brokers)
    from jobs.gateway.issuer import IssuedContexts, first_certificate  # noqa: PLC0415 its library is an extra

    own = first_certificate(brokers.ssl_certificate or read_certificates(settings.ssl_certificate_location))
    return Encryption(
        certificate,
        clients,
        to_brokers,
        IssuedContexts(settings, lambda: to_brokers.value.security),
        own,
        PrincipalRules(settings.ssl_principal_mapping_rules) if identifies else None,
    )


def _broker_side(given: SecuritySettings, issues: bool) -> BrokerSide:  # noqa: FBT001 the second of two arguments
    security = given.security
    try:
        return BrokerSide(security, tls_context(replace(security, ssl_certificate="") if issues else security))
    except ssl.SSLError as error:
        raise BadInput(f"the certificates for connections to brokers cannot be used: {reason_of(error)}") from None


def _close_after_alert(protocol: SSLProtocol, exc: BaseException, message: str = "Fatal error on transport") -> None:
    """Tell a client why its handshake fails, as a broker does; `asyncio` would close without a word.

    Without the alert, the client takes it for a lost connection, and retries.
    """
    if protocol._transport:  # noqa: SLF001
        protocol._process_outgoing()  # type: ignore[attr-defined]  # noqa: SLF001
    _close(protocol, exc, message)


def _server_certificate(settings: GatewaySettings) -> ServerCertificate:
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
            f"{settings.ssl_key_location} cannot be used together: {reason_of(error)}"
        ) from None
    if settings.ssl_client_auth != "none":
        _request_certificates(context, settings)
    return ServerCertificate(context, _end_of_first(settings.ssl_certificate_location))


def _end_of_first(file: str) -> float | None:
    try:
        first, footer, _ = read_certificates(file).partition(ssl.PEM_FOOTER)
        return end_of(ssl.PEM_cert_to_DER_cert(first + footer))
    except (ValueError, KeyError):  # TLS reads more forms of certificates
        return None


def _request_certificates(context: ssl.SSLContext, settings: GatewaySettings) -> None:
    """Request the clients' certificates, and trust as a broker does: each certificate of the CA file."""
    try:
        context.load_verify_locations(cadata=read_certificates(settings.ssl_ca_location))
    except (ssl.SSLError, ValueError) as error:
        raise BadInput(f"gateway.ssl_ca_location: {error}") from None
    context.verify_mode = _MODES[settings.ssl_client_auth]
    context.verify_flags = ssl.VERIFY_X509_TRUSTED_FIRST | ssl.VERIFY_X509_PARTIAL_CHAIN
    context.num_tickets = 0  # a session of TLS 1.3 that is resumed would outlive the client's certificate, and the CA


def reason_of(error: OSError) -> str:
    """Return why TLS fails, in words."""
    reason = getattr(error, "reason", None) or error.strerror or str(error) or "the connection ended"
    return str(reason).replace("_", " ").lower()
