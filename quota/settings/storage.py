"""The section `storage`, and the layout of a storage root."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote

from pydantic import AfterValidator, Field, SecretStr

from quota.settings.types import Name, Section

S3_SCHEME = "s3a://"

_CHECKOUT = Path(__file__).resolve().parents[2]


def default_root(environment: Mapping[str, str] = os.environ, checkout: Path = _CHECKOUT) -> str:
    """Return the folder of data of programs in a checkout, or the user's (XDG) of an installation."""
    if (checkout / "pyproject.toml").exists():
        return ".data"
    data = environment.get("XDG_DATA_HOME", "")
    return f"{data if Path(data).is_absolute() else os.path.expanduser('~/.local/share')}/mutation-quota"  # noqa: PTH111


_LOCAL_ROOT = default_root()
_TABLES = "tables"

_OTHER_S3 = re.compile("(?!s3a://)(?i:s3[an]?://)")  # Hadoop knows s3a in lower case only
_FILE_URL = re.compile("file:(//(localhost)?(?=/))?", re.IGNORECASE)
_ESCAPED = re.compile("%[0-9a-fA-F]{2}")

_LOGIN = re.compile(r"(?i)(s3[an]?://[^/]*:.*@|[a-z][a-z0-9+.-]*://[^/]*:(?!\d+/).*@)")
"""The login of a URL, `user:password@`. A password may have slashes; `hdfs://host:8020/a@b` has no login."""

_DELTALAKE_NAMES = {
    "fs.s3a.access.key": "aws_access_key_id",
    "fs.s3a.secret.key": "aws_secret_access_key",
    "fs.s3a.session.token": "aws_session_token",
    "fs.s3a.endpoint": "aws_endpoint",
    "fs.s3a.endpoint.region": "aws_region",
}
"""deltalake's names for Hadoop's S3 properties."""

_OTHER_NAMES = {
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
    "aws_token": "aws_session_token",
    "token": "aws_session_token",
    "endpoint": "aws_endpoint",
    "endpoint_url": "aws_endpoint",
    "aws_endpoint_url": "aws_endpoint",
    "region": "aws_region",
    "default_region": "aws_region",
    "aws_default_region": "aws_region",
    "allow_http": "aws_allow_http",
    "virtual_hosted_style_request": "aws_virtual_hosted_style_request",
}
"""deltalake's names for S3, by which the programs look for them, by its other words. It takes capitals, too."""

_S3_DEFAULTS = {"retry_timeout": "15s"}
"""By default, deltalake tries again for three minutes if S3 does not answer, which delays a stop. A try takes 30 s."""

_MIN_LEASE_SECONDS = 3.0
_LEASE_SECONDS = 15.0
"""A holder renews each sixth of it (the longest delay seen with five times as many processes as cores was 0.3 s), and
stops itself after two thirds: three renewals may fail, and the other third is left for the stop."""
_REMOTE_LEASE_SECONDS = 20.0
"""The same for a store in the network, whose single requests may take seconds."""

_AMAZON = "amazonaws.com"
_COMPATIBLE = {"fs.s3a.path.style.access": "true", "fs.s3a.endpoint.region": "us-east-1"}
"""The options that most S3-compatible servers need: path-style access, and any region."""


def query_folder(name: str) -> str:
    """Return a folder of checkpoints, relative to the storage root: a query's first one has the query's name."""
    return f"checkpoints/{name}"


def checkpoint_folder(query: str, version: int) -> str:
    """Return the folder of a query's first checkpoint, relative to the storage root. Each version has its own."""
    return f"{query_folder(query)}/v{version}"


def table_folder(name: str) -> str:
    """Return the folder of a Delta table, relative to the storage root."""
    return f"{_TABLES}/{name}"


def _check_root(root: str) -> str:
    if _LOGIN.match(root):  # Hadoop's S3A ignores it since 3.2 (HADOOP-14833), and the root is printed and recorded
        raise ValueError("a URL with a password; set credentials in storage.options, such as fs.s3a.secret.key")
    if match := _OTHER_S3.match(root):
        raise ValueError(f"scheme {match[0]} is not supported; write {S3_SCHEME}{root[match.end() :]}")
    if match := _FILE_URL.match(root):
        raise ValueError(f"a folder has no scheme; write {unquote(root[match.end() :])}")
    if _ESCAPED.search(root):
        raise ValueError(
            "some programs decode a percent sign and two hexadecimal digits as one character; rename the folder"
        )
    return root


def _check_lease(seconds: float) -> float:
    if 0 < seconds < _MIN_LEASE_SECONDS:
        raise ValueError(f"must be at least {_MIN_LEASE_SECONDS:.0f}, or 0 for the default")
    return seconds


class StorageSettings(Section):
    """Where a deployment stores its checkpoints and Delta tables."""

    root: Annotated[Name, AfterValidator(_check_root)] = _LOCAL_ROOT
    """Storage root, a folder or a URL: checkpoints in `<root>/checkpoints`, Delta tables in `<root>/tables`. Outside of
    a checkout, the default is `$XDG_DATA_HOME/mutation-quota`, by default `~/.local/share/mutation-quota`."""

    options: dict[Name, SecretStr] = {}
    """Hadoop properties of the root's file system, such as `fs.s3a.secret.key`."""

    table_options: dict[Name, SecretStr] = {}
    """deltalake's options for the root's file system. For S3 they follow from `options`; these here take precedence."""

    lease_seconds: Annotated[float, Field(ge=0, le=3600), AfterValidator(_check_lease)] = 0.0
    """Time after which a job on another machine may replace one that no longer renews its lease, 3 or more. 0 for 15,
    or for 20 if `root` is a URL."""

    @property
    def url(self) -> str:
        """The root for Spark and Delta: a URL or an absolute path."""
        return self.root if "://" in self.root else str(Path(self.root).absolute())

    @property
    def is_s3(self) -> bool:
        """Whether the root is in S3, or in a store that is compatible with it."""
        return self.root.startswith(S3_SCHEME)

    @property
    def lease(self) -> float:
        """The duration of a lease [s]."""
        return self.lease_seconds or (_REMOTE_LEASE_SECONDS if "://" in self.root else _LEASE_SECONDS)

    @property
    def tables(self) -> str:
        """The folder of all Delta tables."""
        return f"{self.url}/{_TABLES}"

    def table(self, name: str) -> str:
        """Return the path of a Delta table."""
        return f"{self.url}/{table_folder(name)}"

    def hadoop(self) -> dict[str, str]:
        """Return the options as Spark properties (`spark.hadoop.*`)."""
        return {f"spark.hadoop.{name}": value for name, value in self._options().items()}

    def deltalake(self) -> dict[str, str]:
        """Return deltalake's `storage_options`, with which it reads and writes the tables."""
        given = self._options()
        options = {_DELTALAKE_NAMES[name]: value for name, value in given.items() if name in _DELTALAKE_NAMES}
        if "aws_endpoint" in options and "://" not in options["aws_endpoint"]:
            plain = given.get("fs.s3a.connection.ssl.enabled", "").lower() == "false"
            options["aws_endpoint"] = f"{'http' if plain else 'https'}://{options['aws_endpoint']}"
        if options.get("aws_endpoint", "").startswith("http://"):
            options["aws_allow_http"] = "true"
        if "fs.s3a.path.style.access" in given:
            by_host = given["fs.s3a.path.style.access"].lower() != "true"
            options["aws_virtual_hosted_style_request"] = str(by_host).lower()
        more = {name: value.get_secret_value() for name, value in self.table_options.items()}
        if not self.is_s3:
            return options | more
        known = {_OTHER_NAMES.get(name.lower(), name.lower()): value for name, value in more.items()}
        return _S3_DEFAULTS | options | known

    def _options(self) -> dict[str, str]:
        """Return the options, and what follows from an endpoint that is not Amazon's."""
        given = {name: value.get_secret_value() for name, value in self.options.items()}
        endpoint = given.get("fs.s3a.endpoint", "")
        return (_COMPATIBLE if endpoint and _AMAZON not in endpoint else {}) | given

    def local_folder(self, name: str) -> Path:
        """Return a folder on this machine: in the root, or in the default root if the root is a URL."""
        return Path(_LOCAL_ROOT if "://" in self.root else self.root) / name
