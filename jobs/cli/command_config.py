"""Reads Kafka's properties files (`--command-config`, `--target-command-config`) as settings of connections."""

import difflib
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from javaproperties import InvalidUEscapeError, KeyValue, parse

from quota.errors import BadInput
from quota.settings.connection import EXTENSIONS, OIDC_HANDLER
from quota.settings.loading import Override
from quota.settings.security import SecuritySettings

_log = logging.getLogger(__name__)

_SERVERS, _CLIENT_ID = "bootstrap_servers", "client.id"
_DIRECT = {
    "bootstrap.servers": _SERVERS,
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.oauthbearer.token.endpoint.url": "sasl_oauthbearer_token_endpoint_url",
    "ssl.key.password": "ssl_key_password",
}
_STORES = {
    "ssl.truststore": ("ssl_ca_location",),
    "ssl.keystore": ("ssl_certificate_location", "ssl_key_location"),
}
_JAAS, _HOST_CHECK = "sasl.jaas.config", "ssl.endpoint.identification.algorithm"
_HANDLER = "sasl.login.callback.handler.class"
_OIDC = re.compile(r"org\.apache\.kafka\.common\.security\.oauthbearer\.(secured\.)?OAuthBearerLoginCallbackHandler")
_KNOWN = {
    *_DIRECT,
    _CLIENT_ID,
    _JAAS,
    _HANDLER,
    _HOST_CHECK,
    *(f"{store}.{part}" for store in _STORES for part in ("location", "type")),
}
_SECURITY = ("security.", "sasl.", "ssl.")
_MISSPELLED = 0.9
"""The similarity to a known name from which another name is taken for an error in it: `boostrap.servers`."""

_LOGIN = re.compile(r"\s*org\.apache\.kafka\.common\.security\.([\w.]+)LoginModule\s+required\s(.*);\s*", re.DOTALL)
_JAAS_OPTION = re.compile(r"""\s*([\w.]+)\s*=\s*(?:(["'])((?:(?!\2)[^\\]|\\.)*)\2|([^\s"']+))""")
_JAAS_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_JAAS_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_PASSWORDS = ("plain.Plain", "scram.Scram")
_PASSWORD_OPTIONS = {"username": "sasl_username", "password": "sasl_password"}
_TOKENS = "oauthbearer.OAuthBearer"
_TOKEN_OPTIONS = {
    "clientId": "sasl_oauthbearer_client_id",
    "clientSecret": "sasl_oauthbearer_client_secret",
    "scope": "sasl_oauthbearer_scope",
    "ssl.truststore.location": "sasl_oauthbearer_ca_location",
}
_EXTENSION = "extension_"
_PROPERTY_NAME = re.compile(r"acks|retries|[a-z][a-z0-9]*(\.[a-z0-9-]+)+")
_ASSIGNED = re.compile(r"\s*(?:[^\\=:\s]|\\.)+\s*[=:]", re.DOTALL)
_MAX_NAMED = 3


def read_command_config(file: Path) -> list[Override]:
    """Read a properties file, and return settings of `[kafka]`.

    They replace all security settings of `[kafka]`, so a file without a login connects without one.
    """
    option = f"--command-config {file}"
    properties = _read(file, option)
    settings = {f"kafka.{name}": value for name, value in _connection(properties, option).items()}
    return _overrides(settings, option)


def read_target_command_config(file: Path) -> list[Override]:
    """Read a properties file, and return settings of the target cluster.

    They replace all settings of `[target]`, and none is inherited from `[kafka]`.
    """
    option = f"--target-command-config {file}"
    settings = _connection(_read(file, option), option)
    servers = settings.pop(_SERVERS, None)
    first = {} if servers is None else {"kafka.target_servers": servers}
    return _overrides(first | {f"target.{name}": value for name, value in settings.items()}, option)


def _overrides(settings: Mapping[str, str], option: str) -> list[Override]:
    return [Override(f"{name}={value}", option) for name, value in settings.items()]


def _read(file: Path, option: str) -> dict[str, str]:
    """Return the properties of a file that are carried over.

    Others are ignored, as by Kafka's tools, unless they concern security: clients would connect differently.
    """
    try:
        elements = [*parse(file.read_text(encoding="utf-8-sig"))]
    except OSError as error:
        raise BadInput(f"{option}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{option}: not UTF-8") from None
    except InvalidUEscapeError:  # its text may be part of a secret
        raise BadInput(f"{option}: \\u is not followed by four hexadecimal digits") from None
    properties, line = dict[str, str](), 1
    for element in elements:
        if isinstance(element, KeyValue):
            properties[element.key] = element.value
            is_property = _PROPERTY_NAME.fullmatch(element.key) and _ASSIGNED.match(element.source)
            if element.key not in _KNOWN and not is_property:  # the text of a different file, which may be a secret
                raise BadInput(
                    f"{option}: line {line} is not KEY=VALUE with a key of Kafka's clients; "
                    "is this a Kafka properties file?"
                )
        line += element.source.count("\n")
    others = [name for name in properties if name not in _KNOWN]
    if rejected := sorted(name for name in others if name.startswith(_SECURITY) or _nearest(name)):
        raise BadInput(f"{option}: {_not_supported(rejected)}")
    if others:
        _log.debug("%s: ignored, as they do not concern security: %s", option, ", ".join(others))
    return {name: value for name, value in properties.items() if name in _KNOWN}


def _nearest(name: str) -> str | None:
    """Return the known name of which this is a misspelling; None if it is none."""
    return next(iter(difflib.get_close_matches(name, _KNOWN, n=1, cutoff=_MISSPELLED)), None)


def _connection(properties: Mapping[str, str], option: str) -> dict[str, str]:
    """Return all security settings, and the servers if the file has them."""
    if not _OIDC.fullmatch(handler := properties.get(_HANDLER, OIDC_HANDLER)):
        raise BadInput(f"{option}: {_HANDLER}={handler} is not supported; librdkafka cannot run it")
    settings = dict.fromkeys(SecuritySettings.model_fields.keys() - {"librdkafka"}, "")
    settings |= {"security_protocol": "PLAINTEXT", "ssl_endpoint_identification_algorithm": "https"}
    settings |= {setting: properties[name] for name, setting in _DIRECT.items() if name in properties}
    if _HOST_CHECK in properties:
        settings["ssl_endpoint_identification_algorithm"] = properties[_HOST_CHECK] or "none"
    for store, names in _STORES.items():
        if location := properties.get(f"{store}.location"):
            if (kind := properties.get(f"{store}.type", "JKS")) != "PEM":
                raise BadInput(
                    f"{option}: {store}.location is a {kind} file, and only PEM can be read: "
                    f"convert it, and set {store}.type=PEM"
                )
            settings |= dict.fromkeys(names, location)
    if _JAAS in properties:
        settings |= _login(properties[_JAAS], option)
    return settings


def _not_supported(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
    nearest = _nearest(names[0])
    advice = f"did you mean {nearest}?" if nearest else f"remove {them} from the file"
    return f"{', '.join(names[:_MAX_NAMED])}{more} {verb} not supported; {advice}"


def _login(text: str, option: str) -> dict[str, str]:
    match = _LOGIN.fullmatch(text)
    module = match[1] if match else ""
    options = {
        name: _JAAS_ESCAPE.sub(lambda match: _JAAS_ESCAPED.get(match[1], match[1]), quoted) or plain
        for name, _, quoted, plain in _JAAS_OPTION.findall(match[2] if match else "")
    }
    if module in _PASSWORDS and options.keys() == _PASSWORD_OPTIONS.keys():
        return {_PASSWORD_OPTIONS[name]: value for name, value in options.items()}
    extensions = {name: options.pop(name) for name in [*options] if name.startswith(_EXTENSION)}
    if (
        options.pop("ssl.truststore.type", "PEM") == "PEM"
        and module == _TOKENS
        and options.keys() <= _TOKEN_OPTIONS.keys()
    ):
        pairs = ",".join(f"{name.removeprefix(_EXTENSION)}={value}" for name, value in extensions.items())
        given = {_TOKEN_OPTIONS[name]: value for name, value in options.items()}
        return given | ({f"librdkafka.{EXTENSIONS}": pairs} if pairs else {})
    # the text itself is a secret
    raise BadInput(
        f"{option}: {_JAAS} is not supported; use PlainLoginModule or ScramLoginModule with a username and a "
        "password, and OAuthBearerLoginModule with clientId, clientSecret, scope, extensions and a PEM truststore"
    )
