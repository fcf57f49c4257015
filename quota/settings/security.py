"""TLS and SASL settings under Kafka's own names, of both clusters. Unfitting combinations are rejected.

Secrets, certificates and keys may be in files, which are read and checked when they are used. A file may be missing
where a program uses none of it: several programs share one settings file.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, SecretStr

from quota.errors import BadInput
from quota.settings.connection import (
    EXTENSIONS,
    MECHANISMS,
    OAUTHBEARER,
    ClientCredentials,
    ClientProperties,
    Pairs,
    Security,
    as_pairs,
    extension_pairs,
)
from quota.settings.types import Section

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
IN_FILE = "file:"
"""The beginning of a secret's setting that is the path of a file with the secret."""

_PLAIN_KEY, _ENCRYPTED_KEY = "-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----"

_URL = re.compile(r"https?://[^\s/@]+(/[^\s@]*)?")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_LOGINS = ("sasl_username", "sasl_password")
_OAUTH = "sasl_oauthbearer_"
_OF_A_SERVER = ("token_endpoint_url", "client_", "scope", "ca_location")


def read_text(path: str) -> str:
    """Return the content of a file, or an empty text for an empty path."""
    try:
        return Path(path).read_text(encoding="utf-8") if path else ""
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8") from None


def read_certificates(path: str) -> str:
    """Return the certificates of a PEM file without the text around them, in which Python accepts only ASCII.

    An empty text for an empty path.
    """
    certificates = "".join(f"{certificate}\n" for certificate in _CERTIFICATE.findall(read_text(path)))
    if path and not (certificates and certificates.isascii()):
        raise ValueError(f"{path}: not a certificate in PEM format")
    return certificates


def read_key(path: str, password: str) -> str:
    """Return the private key of a PEM file, whose password is given if it is encrypted; nothing for an empty path."""
    text = read_text(path)
    if path and not (_PLAIN_KEY in text or _ENCRYPTED_KEY in text):
        raise ValueError(
            f"{path}: not a PKCS#8 key, which Java requires; convert it with openssl pkcs8 -topk8 -nocrypt"
        )
    if _ENCRYPTED_KEY in text and not password:
        raise ValueError(f"{path} is encrypted, and needs ssl_key_password")
    if password and _ENCRYPTED_KEY not in text:
        raise ValueError("ssl_key_password is given, but the key in ssl_key_location is not encrypted")
    return text


def _check_secret(secret: SecretStr) -> SecretStr:
    value = secret.get_secret_value()
    if value == IN_FILE:
        raise ValueError(f"expected {IN_FILE}PATH")
    if not value.startswith(IN_FILE):
        secret_value(secret)
    return secret


Secret = Annotated[SecretStr, AfterValidator(_check_secret)]
"""A secret, or `file:` and the path of a file with only the secret."""


def secret_file(secret: SecretStr) -> str | None:
    """Return the path of the file that has a secret; None for a secret that is not in a file."""
    value = secret.get_secret_value()
    return value.removeprefix(IN_FILE) if value.startswith(IN_FILE) else None


def secret_value(secret: SecretStr) -> str:
    """Return a secret, read from its file if it is in one; a newline at the end of the file is ignored."""
    value, file = secret.get_secret_value(), secret_file(secret)
    if file is not None:
        value = read_text(file).rstrip("\r\n")
        if not value:
            raise ValueError(f"{file} is empty")
    if _CONTROL.search(value):
        raise ValueError("has a control character")
    return value


def _matching(pattern: re.Pattern[str], expected: str) -> AfterValidator:
    def check(text: str) -> str:
        if text and not pattern.fullmatch(text):
            raise ValueError(f"expected {expected}")
        return text

    return AfterValidator(check)


TokenUrl = Annotated[str, _matching(_URL, "http://host/path or https://host/path, without a user")]
FunctionName = Annotated[str, _matching(_FUNCTION, "module:function")]


class SecuritySettings(Section):
    """Encryption of connections to a cluster, and authentication on both sides."""

    _section: ClassVar[str] = "kafka"

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Whether connections have TLS (`SSL`, `SASL_SSL`) and SASL (`SASL_PLAINTEXT`, `SASL_SSL`)."""

    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = ""
    """SASL mechanism. Required with SASL."""

    sasl_username: str = ""
    """User name for SASL: the principal without its `User:`. Required with PLAIN and SCRAM."""

    sasl_password: Secret = SecretStr("")
    """Password for SASL."""

    sasl_oauthbearer_token_endpoint_url: TokenUrl = ""
    """URL of the token server's endpoint for client credentials. Required with OAUTHBEARER."""

    sasl_oauthbearer_client_id: str = ""
    """Client id at the token server. Required with OAUTHBEARER."""

    sasl_oauthbearer_client_secret: Secret = SecretStr("")
    """Client secret at the token server."""

    sasl_oauthbearer_scope: str = ""
    """Scope of the tokens. Empty for the token server's default."""

    sasl_oauthbearer_ca_location: str = ""
    """Path of the CA certificates to trust at the token server (PEM). Empty for those of the system, and of Java."""

    sasl_oauthbearer_token_function: FunctionName = ""
    """Function that returns tokens, as `module:function`, instead of a token server. Not for Spark's own clients."""

    ssl_ca_location: str = ""
    """Path of the CA certificates to trust (PEM). Empty for those of the system, and of Java."""

    ssl_certificate_location: str = ""
    """Path of the client's certificate with its chain (PEM), for a cluster that requires one. Empty for none."""

    ssl_key_location: str = ""
    """Path of the client's private key (PEM, PKCS#8). Required with `ssl_certificate_location`."""

    ssl_key_password: Secret = SecretStr("")
    """Password of the private key, if it is encrypted."""

    ssl_endpoint_identification_algorithm: Literal["https", "none"] = "https"
    """Check of a broker's certificate: `https` requires the host name connected to, `none` accepts any trusted one."""

    librdkafka: ClientProperties = {}
    """Further properties of librdkafka, which commands and workers use."""

    @property
    def security(self) -> Security:
        """Protocol and credentials, read from their files now."""
        try:
            key_password = self._content("ssl_key_password", secret_value)
            return Security(
                self.security_protocol,
                self.sasl_mechanism,
                self.sasl_username,
                self._content("sasl_password", secret_value),
                self._content("ssl_ca_location", read_certificates),
                self._content("ssl_certificate_location", lambda path: read_certificates(path) and read_text(path)),
                self._content("ssl_key_location", lambda path: read_key(path, key_password)),
                key_password,
                self.ssl_endpoint_identification_algorithm,
                self._credentials(),
                self.sasl_oauthbearer_token_function,
                as_pairs(self.librdkafka),
                self._java(),
            )
        except ValueError as error:
            raise BadInput(f"{self.security_protocol}: {error}") from None

    @property
    def files(self) -> list[str]:
        """The files that `security` reads."""
        secrets = map(secret_file, (self.sasl_password, self.sasl_oauthbearer_client_secret, self.ssl_key_password))
        named = self.ssl_ca_location, self.ssl_certificate_location, self.ssl_key_location
        return [*filter(None, (*named, self.sasl_oauthbearer_ca_location, *secrets))]

    def _content(self, key: str, read: Callable[[Any], str]) -> str:
        try:
            return read(getattr(self, key))
        except ValueError as error:
            raise ValueError(f"{error} ({self._section}.{key})") from None

    def _java(self) -> Pairs:
        return ()

    def _credentials(self) -> ClientCredentials | None:
        if self.sasl_mechanism != OAUTHBEARER or self.sasl_oauthbearer_token_function:
            return None
        return ClientCredentials(
            self.sasl_oauthbearer_token_endpoint_url,
            self.sasl_oauthbearer_client_id,
            self._content("sasl_oauthbearer_client_secret", secret_value),
            self.sasl_oauthbearer_scope,
            self._extensions,
            self._content("sasl_oauthbearer_ca_location", read_certificates),
        )

    @property
    def _extensions(self) -> str:
        return self.librdkafka[EXTENSIONS].get_secret_value() if EXTENSIONS in self.librdkafka else ""

    def problems(self) -> Iterator[str]:
        """Yield the inconsistencies of these settings; files are not read."""
        used, protocol = Security(self.security_protocol), self._protocol
        if self.sasl_mechanism == OAUTHBEARER and not self._has_function:
            extension_pairs(self._extensions)
        if used.has_sasl:
            yield from self._missing()
        unused = (("sasl_", not used.has_sasl, protocol), ("ssl_", not used.has_tls, protocol))
        for prefix, is_unused, owner in (*unused, *self._unused_logins(has_sasl=used.has_sasl)):
            yield from (f"{owner} does not use {name}" for name in self._given(prefix) if is_unused)
        if bool(self.ssl_certificate_location) != bool(self.ssl_key_location):
            yield "set ssl_certificate_location and ssl_key_location together"
        if self.ssl_key_password and not self.ssl_key_location:
            yield "ssl_key_password is given, but no ssl_key_location"

    @property
    def _protocol(self) -> str:
        return f"security_protocol {self.security_protocol}"

    def _missing(self) -> Iterator[str]:
        mechanism = f"sasl_mechanism {self.sasl_mechanism}"
        if not (self.sasl_mechanism or MECHANISMS & self.librdkafka.keys()):
            yield f"{self._protocol} needs sasl_mechanism"
        elif not self.sasl_mechanism or self._has_function:
            return
        elif self.sasl_mechanism != OAUTHBEARER:
            yield from (f"{self._protocol} needs {name}" for name in _LOGINS if not getattr(self, name))
        else:
            needed = (f"{_OAUTH}{name}" for name in ("token_endpoint_url", "client_id", "client_secret"))
            yield from (f"{mechanism} needs {name}" for name in needed if not getattr(self, name))

    def _unused_logins(self, *, has_sasl: bool) -> Iterator[tuple[str, bool, str]]:
        mechanism, by_token = f"sasl_mechanism {self.sasl_mechanism}", self.sasl_mechanism == OAUTHBEARER
        yield _OAUTH, has_sasl and not by_token, mechanism
        yield from ((name, by_token, mechanism) for name in _LOGINS)
        yield from ((f"{_OAUTH}{name}", self._has_function, f"{_OAUTH}token_function") for name in _OF_A_SERVER)

    @property
    def _has_function(self) -> bool:
        return self.sasl_mechanism == OAUTHBEARER and bool(self.sasl_oauthbearer_token_function)

    def _given(self, prefix: str) -> list[str]:
        """Return the keys that differ from their defaults, and whose names start with a prefix."""
        fields = SecuritySettings.model_fields.items()
        return [name for name, field in fields if name.startswith(prefix) and getattr(self, name) != field.default]


class TargetSettings(SecuritySettings):
    """Security of connections to the target cluster: that of `[kafka]`, unless a key is set here.

    Then none of `[kafka]` applies, so that no login is sent to a cluster that it is not for.
    """

    _section: ClassVar[str] = "target"

    @property
    def is_own(self) -> bool:
        """Whether a key is set, so that nothing is inherited."""
        return bool(self.model_fields_set)

    def problems_with(self, kafka: SecuritySettings) -> Iterator[str]:
        """Yield the inconsistencies."""
        if not self.is_own:
            return
        if "security_protocol" not in self.model_fields_set and kafka.security_protocol != self.security_protocol:
            yield (
                f"security_protocol is not set, and kafka.security_protocol={kafka.security_protocol} is not "
                "inherited, because a key of [target] is set: set all that the target needs"
            )
        yield from self.problems()
