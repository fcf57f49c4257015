"""Reads Kafka's properties files (`--command-config`, `--target-command-config`) as settings of connections."""

import difflib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from quota.errors import BadInput
from quota.settings.loading import Override
from quota.settings.security.oauth import EXTENSIONS, OIDC_HANDLER
from quota.settings.security.settings import SecuritySettings

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
_BLANKS = " \t\f"
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")
_ENTRY = re.compile(r"((?:[^\\=:\s]|\\.)+)\s*([=:\s]?)\s*(.*)", re.DOTALL)
_PROPERTY_NAME = re.compile(r"acks|retries|[a-z][a-z0-9]*(\.[a-z0-9-]+)+")
_MAX_NAMED = 3
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class _Entry:
    line: int
    """The number of its first line, from 1."""
    name: str
    value: str
    is_assigned: bool
    """Whether `=` or `:` follows the name; Java also accepts a space, and a name alone."""

    @property
    def is_property(self) -> bool:
        """Whether this is a property of a client; otherwise it is text of a different file, and may be a secret."""
        return self.is_assigned and bool(_PROPERTY_NAME.fullmatch(self.name))


def read_command_config(file: Path) -> list[Override]:
    """Read a properties file, and return settings of `[kafka]`.

    They replace all security settings of `[kafka]`, so a file without a login connects without one. A `client.id` is
    the client-id of requests.
    """
    option = f"--command-config {file}"
    properties = _read(file, option)
    settings = {f"kafka.{name}": value for name, value in _connection(properties, option).items()}
    if client_id := properties.get(_CLIENT_ID):
        settings["client.client_id"] = client_id
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
        entries = [*_properties(file.read_text(encoding="utf-8-sig"))]
    except OSError as error:
        raise BadInput(f"{option}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{option}: not UTF-8") from None
    others = [entry for entry in entries if entry.name not in _KNOWN]
    if rejected := [entry for entry in others if not _is_ignored(entry)]:
        raise BadInput(f"{option}: {_not_supported(rejected)}")
    if others:
        _log.debug(
            "%s: ignored, as they do not concern security: %s", option, ", ".join(entry.name for entry in others)
        )
    return {entry.name: entry.value for entry in entries if entry.name in _KNOWN}


def _is_ignored(entry: _Entry) -> bool:
    """Return whether this is a property of clients that changes nothing for the jobs, and no misspelled name."""
    if not entry.is_property or entry.name.startswith(_SECURITY):
        return False
    return not difflib.get_close_matches(entry.name, _KNOWN, n=1, cutoff=_MISSPELLED)


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


def _not_supported(entries: Sequence[_Entry]) -> str:
    """Return why entries are not accepted."""
    for entry in entries:
        if not entry.is_property:
            return f"line {entry.line} is not KEY=VALUE with a key of Kafka's clients; is this a Kafka properties file?"
    names = sorted({entry.name for entry in entries})
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
    nearest = difflib.get_close_matches(names[0], _KNOWN, n=1, cutoff=_MISSPELLED)
    advice = f"did you mean {nearest[0]}?" if nearest else f"remove {them} from the file"
    return f"{', '.join(names[:_MAX_NAMED])}{more} {verb} not supported; {advice}"


def _login(text: str, option: str) -> dict[str, str]:
    """Return the settings of a login with PLAIN, SCRAM or OAUTHBEARER."""
    match = _LOGIN.fullmatch(text)
    module = match[1] if match else ""
    options = {
        name: _unescaped(quoted) or plain for name, _, quoted, plain in _JAAS_OPTION.findall(match[2] if match else "")
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


def _properties(text: str) -> Iterator[_Entry]:
    """Yield the entries of a file in the format of java.util.Properties."""
    lines = enumerate(text.replace("\r\n", "\n").split("\n"), 1)
    for number, line in lines:
        logical = line.lstrip(_BLANKS)
        if not logical or logical[0] in "#!":
            continue
        while _CONTINUED.search(logical):
            logical = logical[:-1] + next(lines, (0, ""))[1].lstrip(_BLANKS)
        match = _ENTRY.fullmatch(logical)
        name, separator, value = match.groups() if match else ("", "", "")
        yield _Entry(number, _unescaped(name), _unescaped(value), separator in {"=", ":"})


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else _ESCAPED.get(match[2], match[2]), text)
