"""Where a deployment keeps its checkpoints and tables."""

from quota.settings import Settings


def checkpoint_path(settings: Settings, query: str, version: int) -> str:
    """The checkpoint of a query; a new version starts anew beside the old one."""
    return f"{settings.storage.root}/checkpoints/{query}/v{version}"


def table_path(settings: Settings, name: str) -> str:
    """The Delta table of that name."""
    return f"{settings.storage.root}/tables/{name}"
