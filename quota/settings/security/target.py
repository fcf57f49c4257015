"""The security of connections to the target cluster, and what it inherits from `[kafka]`."""

from collections.abc import Iterator
from typing import Any

from quota.settings.security.clients import has_sasl, has_tls
from quota.settings.security.oauth import MECHANISM
from quota.settings.security.properties import is_security
from quota.settings.security.settings import SecuritySettings

_PROPERTIES = "librdkafka"
_CLIENT = ("sasl_oauthbearer_client_id", "sasl_oauthbearer_token_endpoint_url")
_BELONGS_TO = {
    "sasl_password": ("sasl_username", "sasl_password_file"),
    "sasl_password_file": ("sasl_username", "sasl_password"),
    "sasl_oauthbearer_client_secret": (*_CLIENT, "sasl_oauthbearer_client_secret_file"),
    "sasl_oauthbearer_client_secret_file": (*_CLIENT, "sasl_oauthbearer_client_secret"),
    "sasl_oauthbearer_token_function": _CLIENT,
    "ssl_certificate_location": ("ssl_key_location",),
    "ssl_key_location": ("ssl_certificate_location",),
    "ssl_key_password": ("ssl_certificate_location", "ssl_key_location", "ssl_key_password_file"),
    "ssl_key_password_file": ("ssl_certificate_location", "ssl_key_location", "ssl_key_password"),
}
"""For each key, the keys of `[target]` that prevent its inheritance: a password belongs to a user, and a certificate to
a key, and a secret must not be sent to another server or for another user."""


_LOGIN_SECRETS = (
    "sasl_password",
    "sasl_password_file",
    "sasl_oauthbearer_client_secret",
    "sasl_oauthbearer_client_secret_file",
    "sasl_oauthbearer_token_function",
)


class TargetSettings(SecuritySettings):
    """Security of connections to the target cluster. A key that is not set here has its value in `[kafka]`.

    A password is only inherited with its user name, and a certificate, its key and the key's password only together.
    No login is inherited if it would be less protected than in `[kafka]`: without TLS, with PLAIN instead of SCRAM,
    or with other properties of TLS or SASL in `librdkafka`.
    """

    def inherited(self, kafka: SecuritySettings) -> dict[str, Any]:
        """Return the keys that have their values in `[kafka]`, with these values.

        Keys that the protocol or the mechanism does not use are left out. Properties are inherited only if nothing is
        set here: they would override it.
        """
        by_token = self._mechanism(kafka) == MECHANISM
        unused = ["sasl_username", "sasl_password"] if by_token else ["sasl_oauthbearer_"]
        if "sasl_oauthbearer_token_function" in self.model_fields_set:
            unused.append("sasl_oauthbearer_")
        if not has_sasl(self._protocol(kafka)):
            unused.append("sasl_")
        if not has_tls(self._protocol(kafka)):
            unused.append("ssl_")
        kept_out = self._kept_out(kafka)
        return {
            key: getattr(kafka, key)
            for key in SecuritySettings.model_fields
            if (key not in self.model_fields_set if key != _PROPERTIES else not self.model_fields_set)
            and not key.startswith(tuple(unused))
            and key not in kept_out
        }

    def resolved(self, kafka: SecuritySettings) -> SecuritySettings:
        """Return the security in force, with the keys that have their values in `[kafka]`."""
        return self.model_copy(update=self.inherited(kafka))

    def problems_with(self, kafka: SecuritySettings) -> Iterator[str]:
        """Yield the inconsistencies, including those with inherited keys.

        Raises:
            ValueError: a file cannot be read.
        """
        reasons: dict[str, list[str]] = {}
        for key, reason in self._kept_out(kafka).items():
            if getattr(kafka, key) != type(kafka).model_fields[key].default:
                reasons.setdefault(reason, []).append(f"kafka.{key}")
        for problem in self.resolved(kafka).problems():
            yield "; ".join([problem, *(f"{' and '.join(keys)} is {reason}" for reason, keys in reasons.items())])

    def _kept_out(self, kafka: SecuritySettings) -> dict[str, str]:
        """Return the keys of `[kafka]` that are not inherited, to protect secrets, each with the reason."""
        kept_out = dict.fromkeys(_LOGIN_SECRETS, reason) if (reason := self._weakness(kafka)) else {}
        for key, owners in _BELONGS_TO.items():
            if not self.model_fields_set.isdisjoint(owners):
                kept_out[key] = "not for another user or key"
        return kept_out

    def _weakness(self, kafka: SecuritySettings) -> str:
        """Return why logins of `[kafka]` are not for the target; empty if they are."""
        if has_tls(kafka.security_protocol) and not has_tls(self._protocol(kafka)):
            return f"protected by TLS in [kafka], and not inherited for {self._protocol(kafka)}"
        if kafka.sasl_mechanism.startswith("SCRAM") and self._mechanism(kafka) == "PLAIN":
            return "never sent by SCRAM, and not inherited for PLAIN, which sends it"
        if self.model_fields_set:  # so that the properties of [kafka] are not inherited
            own, others = (next(filter(is_security, each.librdkafka), "") for each in (self, kafka))
            if own:
                return f"not inherited together with target.librdkafka.{own}, which may change where and how it is sent"
            if others:
                return f"not inherited without kafka.librdkafka.{others}, which may change where and how it is sent"
        return ""

    def _protocol(self, kafka: SecuritySettings) -> str:
        return (self if "security_protocol" in self.model_fields_set else kafka).security_protocol

    def _mechanism(self, kafka: SecuritySettings) -> str:
        return (self if "sasl_mechanism" in self.model_fields_set else kafka).sasl_mechanism
