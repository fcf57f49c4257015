"""The request logs of a cluster's nodes, without most lines of other requests; the lines are not altered."""

import gzip
import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.evidence.request_logs.log_settings import REQUEST_LOG
from tests.evidence.request_logs.node import Node

KEPT_OF_OTHERS = 8
"""Number of lines that are kept per node and API, of APIs that do not change topics."""

_CHANGES = frozenset({"CREATE_TOPICS", "CREATE_PARTITIONS", "DELETE_TOPICS"})
_NAME = re.compile(rb'"requestApiKeyName":"(\w+)"|apiKey=(\w+)')
_LARGE = 200_000


def sizes(nodes: tuple[Node, ...]) -> dict[str, int]:
    """Return the current size of each node's log, bytes."""
    return {each.name: (each.folder / REQUEST_LOG).stat().st_size for each in nodes}


def keep(nodes: tuple[Node, ...], begun: dict[str, int], folder: Path) -> None:
    """Copy the logs into a folder for each node; files of an earlier hour and large files are compressed.

    Args:
        nodes: The nodes.
        begun: Size of each node's log when the run began, bytes; earlier lines are not copied.
        folder: Folder of the copies.
    """
    for node in nodes:
        counts: Counter[bytes] = Counter()
        target = folder / node.name
        target.mkdir()
        paths = sorted(node.folder.glob(f"{REQUEST_LOG}*"), key=lambda path: (path.name == REQUEST_LOG, path.name))
        for number, path in enumerate(paths):
            data = path.read_bytes()[begun[node.name] if number == 0 else 0 :]
            kept = b"".join(_kept(data, counts))
            if len(kept) > _LARGE or path.name != REQUEST_LOG:
                (target / f"{path.name}.gz").write_bytes(gzip.compress(kept, mtime=0))
            else:
                (target / path.name).write_bytes(kept)


def _kept(data: bytes, counts: Counter[bytes]) -> Iterator[bytes]:
    for line in io.BytesIO(data):
        found = _NAME.search(line)
        if found is not None:
            name = found[1] or found[2]
            counts[name] += 1
            if name.decode() not in _CHANGES and counts[name] > KEPT_OF_OTHERS:
                continue
        yield line
