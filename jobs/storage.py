"""Where a deployment keeps its checkpoints and tables."""

from pathlib import Path

from quota.settings import Settings


def checkpoint_path(settings: Settings, query: str, version: int) -> str:
    """The checkpoint of a query; a new version starts anew beside the old one."""
    return f"{settings.storage.root}/checkpoints/{query}/v{version}"


def local_folder(settings: Settings, name: str) -> Path:
    """A folder on this machine for what cannot be kept elsewhere; beside the rest where that is on this machine too."""
    root = settings.storage.root
    return Path(Settings().storage.root if "://" in root else root) / name


def table_path(settings: Settings, name: str) -> str:
    """The Delta table of that name."""
    return f"{settings.storage.root}/tables/{name}"
