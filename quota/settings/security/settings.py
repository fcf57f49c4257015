"""TLS and SASL settings under Kafka's own names. Combinations that do not fit together are rejected."""

from collections.abc import Iterator
from typing import Literal, TypeAlias

from pydantic import SecretStr

from quota.errors import BadInput
from quota.settings.connection import Security
from quota.settings.security.files import (
    ENCRYPTED_KEY,
    CertificateFile,
    KeyFile,
    Secret,
    SecretFile,
    read_text,
    secret_value,
)
from quota.settings.types import Section

SecurityProtocol: TypeAlias = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


class SecuritySettings(Section):
    """Encryption of connections to a cluster, and authentication on both sides."""

    security_protocol: SecurityProtocol = "PLAINTEXT"
    """Protocol: with TLS (`SSL`, `SASL_SSL`) or without, with SASL (`SASL_PLAINTEXT`, `SASL_SSL`) or without."""

    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = ""
    """SASL mechanism. Required with SASL."""

    sasl_username: str = ""
    """User name for SASL: the principal without its `User:`. Required with SASL."""

    sasl_password: Secret = SecretStr("")
    """Password for SASL. Prefer `sasl_password_file`: other users can see command lines, and child processes inherit
    environments."""

    sasl_password_file: SecretFile = ""
    """Path of a file with only the password, such as a mounted Kubernetes secret. A newline at its end is ignored."""

    ssl_ca_location: CertificateFile = ""
    """Path of the CA certificates to trust (PEM). Empty for those of the system, and of Java."""

    ssl_certificate_location: CertificateFile = ""
    """Path of the client's certificate with its chain (PEM), for a cluster that requires one. Empty for none."""

    ssl_key_location: KeyFile = ""
    """Path of the client's private key (PEM, PKCS#8). Required with `ssl_certificate_location`."""

    ssl_key_password: Secret = SecretStr("")
    """Password of an encrypted private key."""

    ssl_key_password_file: SecretFile = ""
    """Path of a file with only the private key's password. A newline at its end is ignored."""

    ssl_endpoint_identification_algorithm: Literal["https", "none"] = "https"
    """Check of a broker's certificate: `https` requires the host name connected to, `none` accepts any trusted one."""

    @property
    def security(self) -> Security:
        """Protocol and credentials, read from their files now.

        Raises:
            BadInput: a file is missing or has changed since the settings were loaded.
        """
        try:
            return self._read()
        except ValueError as error:
            raise BadInput(f"{self.security_protocol}: {error}") from None

    def _read(self) -> Security:
        return Security(
            self.security_protocol,
            self.sasl_mechanism,
            self.sasl_username,
            secret_value(self.sasl_password, self.sasl_password_file),
            read_text(self.ssl_ca_location),
            read_text(self.ssl_certificate_location),
            read_text(self.ssl_key_location),
            secret_value(self.ssl_key_password, self.ssl_key_password_file),
            self.ssl_endpoint_identification_algorithm,
        )

    def problems(self) -> Iterator[str]:
        """Yield what does not fit together.

        Raises:
            ValueError: a file cannot be read.
        """
        for name in ("sasl_password", "ssl_key_password"):
            if getattr(self, name).get_secret_value() and getattr(self, f"{name}_file"):
                yield f"{name} and {name}_file are given: one is enough"
        security, protocol = self._read(), f"security_protocol {self.security_protocol}"
        sasl = ("sasl_mechanism", "sasl_username", "sasl_password")
        if security.has_sasl:
            yield from (f"{protocol} needs {name}" for name in sasl if not getattr(security, name))
        for prefix, used in (("sasl", security.has_sasl), ("ssl", security.has_tls)):
            fields = type(self).model_fields.items()
            given = [name for name, field in fields if getattr(self, name) != field.default]
            for name in given if not used else ():
                if name.startswith(f"{prefix}_"):
                    yield f"{protocol} has no use for {name}"
        if bool(security.ssl_certificate) != bool(security.ssl_key):
            yield "ssl_certificate_location and ssl_key_location go together"
        encrypted = ENCRYPTED_KEY in security.ssl_key
        if encrypted != bool(security.ssl_key_password):
            yield (
                f"the key in ssl_key_location {self.ssl_key_location} is encrypted, and needs ssl_key_password"
                if encrypted
                else "ssl_key_password is given, but ssl_key_location has no key that is encrypted"
            )
