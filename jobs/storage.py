"""Where a deployment keeps its checkpoints and tables."""

from quota.settings import Settings


def checkpoint(settings: Settings, query: str, version: int) -> str:
    """The checkpoint of a query; a new version starts anew beside the old one."""
    return f"{settings.storage.root}/checkpoints/{query}/v{version}"


def table(settings: Settings, name: str) -> str:
    """The path of a Delta table."""
    return f"{settings.storage.root}/tables/{name}"
