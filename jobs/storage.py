"""Where a deployment keeps its checkpoints and tables."""

from pathlib import Path

from quota.settings import Settings


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


def table_path(settings: Settings, name: str) -> str:
    """The Delta table of that name."""
    return f"{storage_root(settings)}/tables/{name}"


def local_folder(settings: Settings, name: str) -> Path:
    """A folder on this machine for what cannot be kept elsewhere; beside the rest where that is on this machine too."""
    root = settings.storage.root
    return Path(Settings().storage.root if "://" in root else root) / name
