"""Settings of TLS and SASL, by Kafka's own names; what does not fit together is refused."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, SecretStr, model_validator

from quota.errors import BadInput
from quota.settings.connection import Security

SECTION = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True)
"""Of all sections: no keys that nobody knows, and no values in pydantic's own errors, for they may be secrets."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_PLAIN_KEY, _ENCRYPTED_KEY = "-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----"


def _text(path: str) -> str:
    """What stands in a file; nothing where none is named.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8") if path else ""
    except OSError as error:
        raise ValueError(f"{error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None


def _readable(path: str) -> str:
    _text(path)
    return path


def _certificate(path: str) -> str:
    if path and _CERTIFICATE not in _text(path):
        raise ValueError("no certificate in PEM")
    return path


def _key(path: str) -> str:
    text = _text(path)
    if path and not (_PLAIN_KEY in text or _ENCRYPTED_KEY in text):
        raise ValueError("no key in PKCS#8, as Java takes it; openssl pkcs8 -topk8 -nocrypt makes one")
    return path


def _printable(secret: SecretStr) -> SecretStr:
    if _CONTROL.search(secret.get_secret_value()):
        raise ValueError("has a control character")
    return secret


Secret = Annotated[SecretStr, AfterValidator(_printable)]
SecretFile = Annotated[str, AfterValidator(_readable)]
CertificateFile = Annotated[str, AfterValidator(_certificate)]
KeyFile = Annotated[str, AfterValidator(_key)]


class SecuritySettings(BaseModel):
    """How clients and a cluster know each other."""

    model_config = SECTION

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """TLS or not, SASL or not."""

    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = ""
    """How the password is shown to know; needed with SASL."""

    sasl_username: str = ""
    """The principal, without its `User:`."""

    sasl_password: Secret = SecretStr("")
    """Better in a file: command lines and environments are seen by others."""

    sasl_password_file: SecretFile = ""
    """A file that holds the password alone, as Kubernetes mounts one; a newline at its end does not count."""

    ssl_ca_location: CertificateFile = ""
    """Certificates (PEM) of the authorities to trust; those of the system, and of Java, by default."""

    ssl_certificate_location: CertificateFile = ""
    """The client's own certificate (PEM) with its chain, where the cluster asks for one."""

    ssl_key_location: KeyFile = ""
    """Its key (PEM, PKCS#8)."""

    ssl_key_password: Secret = SecretStr("")
    """What its key is encrypted with."""

    ssl_key_password_file: SecretFile = ""
    """A file that holds it alone."""

    ssl_endpoint_identification_algorithm: Literal["https", "none"] = "https"
    """Whether a broker's certificate has to be of the host that was connected to."""

    @property
    def security(self) -> Security:
        """Protocol and credentials, with what stands in the files now.

        Raises:
            BadInput: a file is not there any more, or not as it was.
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
            _secret(self.sasl_password, self.sasl_password_file),
            _text(self.ssl_ca_location),
            _text(self.ssl_certificate_location),
            _text(self.ssl_key_location),
            _secret(self.ssl_key_password, self.ssl_key_password_file),
            self.ssl_endpoint_identification_algorithm,
        )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for problem in self._problems():
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
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
        encrypted = _ENCRYPTED_KEY in security.ssl_key
        if encrypted != bool(security.ssl_key_password):
            yield (
                f"the key in ssl_key_location {self.ssl_key_location} is encrypted, and needs ssl_key_password"
                if encrypted
                else "ssl_key_password is given, but ssl_key_location has no key that is encrypted"
            )


def _secret(given: SecretStr, file: str) -> str:
    """A secret that is given, or that stands in a file.

    Raises:
        ValueError: the file cannot be read, or holds none.
    """
    if not file:
        return given.get_secret_value()
    text = _text(file).rstrip("\r\n")
    if not text:
        raise ValueError(f"{file} is empty")
    return _printable(SecretStr(text)).get_secret_value()
