"""`simulate` over files."""

import sys
from pathlib import Path
from typing import BinaryIO

from quota import codec
from quota.errors import BadInput
from quota.settings import Settings
from quota.simulate import read_quotas, simulate


def print_decisions(settings: Settings, requests: str, quotas: Path) -> None:
    """Print a decision or a dead letter for each line of a file of requests, or of standard input (`-`)."""
    timeline = read_quotas(quotas)
    with _open(requests) as lines:
        out = sys.stdout.buffer
        for answer in simulate(
            lines, timeline, settings.quota.window, settings.topics.requests, settings.limits.max_request_bytes
        ):
            out.write(codec.encode(answer) + b"\n")
        out.flush()


def _open(path: str) -> BinaryIO:
    if path == "-":
        return sys.stdin.buffer
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
