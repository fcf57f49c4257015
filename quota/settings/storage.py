"""Where a deployment keeps its checkpoints and tables."""

from pathlib import Path

from quota.settings.model import Settings

TABLES_FOLDER = "tables"
"""That of the Delta tables, within the storage root."""

_DELTA_NAMES = {
    "fs.s3a.access.key": "aws_access_key_id",
    "fs.s3a.secret.key": "aws_secret_access_key",
    "fs.s3a.session.token": "aws_session_token",
    "fs.s3a.endpoint": "aws_endpoint",
    "fs.s3a.endpoint.region": "aws_region",
}
"""deltalake's names for Hadoop's properties of S3."""


def storage_root(settings: Settings) -> str:
    """The root as all of Spark and Delta understand it: a URL, or an absolute path."""
    root = settings.storage.root
    return root if "://" in root else str(Path(root).absolute())


def checkpoint_path(settings: Settings, query: str, version: int) -> str:
    """The checkpoint of a query, for Spark."""
    return f"{storage_root(settings)}/{checkpoint_folder(query, version)}"


def checkpoint_folder(query: str, version: int) -> str:
    """The same within the storage root; versions stand beside each other."""
    return f"checkpoints/{query}/v{version}"


def tables_path(settings: Settings) -> str:
    """The folder of all tables."""
    return f"{storage_root(settings)}/{TABLES_FOLDER}"


def table_path(settings: Settings, name: str) -> str:
    """The Delta table of that name."""
    return f"{tables_path(settings)}/{name}"


def hadoop_properties(settings: Settings) -> dict[str, str]:
    """What the root's file system is reached with, as Spark's properties."""
    return {f"spark.hadoop.{name}": value.get_secret_value() for name, value in settings.storage.options.items()}


def delta_options(settings: Settings) -> dict[str, str]:
    """The same for readers of the tables without Spark: deltalake's `storage_options`, where the root is on S3."""
    given = {name: value.get_secret_value() for name, value in settings.storage.options.items()}
    options = {_DELTA_NAMES[name]: value for name, value in given.items() if name in _DELTA_NAMES}
    if given.get("fs.s3a.endpoint", "").startswith("http://"):
        options["aws_allow_http"] = "true"
    if "fs.s3a.path.style.access" in given:
        by_host = given["fs.s3a.path.style.access"] != "true"
        options["aws_virtual_hosted_style_request"] = str(by_host).lower()
    return options


def local_folder(settings: Settings, name: str) -> Path:
    """A folder on this machine for what cannot be kept elsewhere; beside the rest where that is on this machine too."""
    root = settings.storage.root
    return Path(Settings().storage.root if "://" in root else root) / name
