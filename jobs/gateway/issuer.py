"""Certificates at brokers for clients that the gateway has verified: with their names, signed by the gateway's CA."""

import asyncio
import hashlib
import secrets
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import cast

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509 import load_pem_x509_certificate

from jobs.gateway.watched import Watched
from quota.errors import BadInput
from quota.gateway.certificates import EXTENSIONS, alternative_names_of, encode, sequence, subject_of
from quota.kafka.brokers.broker_calls import tls_context
from quota.settings.connection import Security
from quota.settings.jobs import GatewaySettings
from quota.settings.security import read_certificates, read_text, secret_file, secret_value

_VALID_SECONDS = 600
"""The time that a certificate is valid. A broker checks it only in the handshake."""
_CLOCK_SECONDS = 300
"""The time by which a broker's clock may be behind."""
_MAX_CONTEXTS = 1000
"""The maximum number of clients' contexts. One takes 8 KiB, and 800 KiB with the CA certificates of a system."""

_BITS, _BYTES, _INTEGER, _TIME = 0x03, 0x04, 0x02, 0x17
_VERSION_3 = encode(0xA0, encode(_INTEGER, b"\2"))
_CLIENT_AUTHENTICATION = sequence(
    bytes.fromhex("0603551d25"), encode(_BYTES, sequence(bytes.fromhex("06082b06010505070302")))
)
"""The extension by which a certificate identifies clients, and no servers."""
_BY_ELLIPTIC_CURVE, _BY_RSA, _BY_ED25519 = map(
    bytes.fromhex, ("300a06082a8648ce3d040302", "300d06092a864886f70d01010b0500", "300506032b6570")
)
"""The algorithms of signatures: ECDSA and RSA with SHA-256, and Ed25519."""

_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True, slots=True)
class Issuer:
    """The gateway's own certificate authority."""

    chain: str
    """Its certificate, and those between it and one that the brokers trust (PEM)."""
    subject: bytes
    key: _Key = field(repr=False)

    @classmethod
    def read(cls, settings: GatewaySettings) -> "Issuer":
        """Read the files, and check that they can be used."""
        certificate, location = settings.ssl_issuer_certificate_location, settings.ssl_issuer_key_location
        try:
            password = secret_value(settings.ssl_issuer_key_password).encode() or None
            chain = read_certificates(certificate)
            key = serialization.load_pem_private_key(read_text(location).encode(), password)
            own = load_pem_x509_certificate(chain.encode())
            public, subject = own.public_key(), subject_of(own.public_bytes(serialization.Encoding.DER))
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise BadInput(
                f"gateway.ssl_issuer_certificate_location {certificate} and gateway.ssl_issuer_key_location {location} "
                f"cannot be used: {error}"
            ) from None
        if not isinstance(key, _Key):
            raise BadInput(f"gateway.ssl_issuer_key_location {location}: the key is not of an elliptic curve or of RSA")
        if public != key.public_key():
            raise BadInput(
                f"gateway.ssl_issuer_certificate_location {certificate} is not the certificate of the key in "
                f"gateway.ssl_issuer_key_location {location}"
            )
        return cls(chain, subject, key)

    def certificate(self, client: bytes, now: float) -> tuple[str, str]:
        """Return a certificate with the subject and the alternative names of a client's, and its new key (PEM)."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        algorithm, sign = self._signing()
        extensions = sequence(_CLIENT_AUTHENTICATION, alternative_names_of(client))
        signed = sequence(
            _VERSION_3,
            encode(_INTEGER, b"\1" + secrets.token_bytes(16)),
            algorithm,
            self.subject,
            sequence(_time(now - _CLOCK_SECONDS), _time(now + _VALID_SECONDS)),
            subject_of(client),
            public,
            encode(EXTENSIONS, extensions),
        )
        made = sequence(signed, algorithm, encode(_BITS, b"\0" + sign(signed)))
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return ssl.DER_cert_to_PEM_cert(made) + self.chain, private.decode()

    def _signing(self) -> tuple[bytes, Callable[[bytes], bytes]]:
        """Return the algorithm of the issuer's signatures, and the function that signs."""
        match self.key:
            case ec.EllipticCurvePrivateKey() as key:
                return _BY_ELLIPTIC_CURVE, lambda data: key.sign(data, ec.ECDSA(hashes.SHA256()))
            case rsa.RSAPrivateKey() as key:
                return _BY_RSA, lambda data: key.sign(data, padding.PKCS1v15(), hashes.SHA256())
            case key:
                return _BY_ED25519, key.sign


class IssuedContexts:
    """The TLS contexts of connections to brokers for clients, by the fingerprint of a client's certificate."""

    def __init__(self, settings: GatewaySettings, brokers: Callable[[], Security]) -> None:
        """Read the issuer's files, and connect as `brokers` says otherwise, which may change."""
        self._brokers = brokers
        self._issuer = Watched(
            "issuer",
            [
                settings.ssl_issuer_certificate_location,
                settings.ssl_issuer_key_location,
                secret_file(settings.ssl_issuer_key_password),
            ],
            lambda: Issuer.read(settings),
        )
        self._made: OrderedDict[bytes, tuple[tuple[Issuer, Security], float, ssl.SSLContext]] = OrderedDict()

    def refresh(self) -> None:
        """Read the issuer's files again if they have changed."""
        self._issuer.refresh()

    async def context(self, client: bytes) -> ssl.SSLContext:
        """Return a context with a certificate for a client that will be valid for some minutes."""
        fingerprint, by, now = hashlib.sha256(client).digest(), (self._issuer.value, self._brokers()), time.time()
        made_by, renew_at, context = self._made.get(fingerprint, (None, 0.0, None))
        if context is None or made_by != by or now >= renew_at:
            context = await asyncio.to_thread(self._make, *by, client, now)
            self._made[fingerprint] = by, now + _VALID_SECONDS / 2, context
            if len(self._made) > _MAX_CONTEXTS:
                self._made.popitem(last=False)
        self._made.move_to_end(fingerprint)
        return context

    @staticmethod
    def _make(issuer: Issuer, brokers: Security, client: bytes, now: float) -> ssl.SSLContext:
        certificate, key = issuer.certificate(client, now)
        made = replace(brokers, ssl_certificate=certificate, ssl_key=key, ssl_key_password="")
        return cast("ssl.SSLContext", tls_context(made))  # TLS to the brokers is required (`make_encryption`)


def first_certificate(chain: str) -> bytes:
    """Return the first certificate of a chain (DER), which is the gateway's own."""
    try:
        return load_pem_x509_certificate(chain.encode()).public_bytes(serialization.Encoding.DER)
    except ValueError as error:
        raise BadInput(f"the gateway's own certificate cannot be read: {error}") from None


def _time(seconds: float) -> bytes:
    return encode(_TIME, datetime.fromtimestamp(seconds, UTC).strftime("%y%m%d%H%M%SZ").encode())
