"""`simulate` over files."""

import sys
from pathlib import Path
from typing import BinaryIO

from jobs.whatif.quota_log_file import read_quota_log
from quota.algorithms.registry import AlgorithmName, algorithm_of
from quota.callbacks.loading import check
from quota.errors import BadInput
from quota.records import codec
from quota.settings.loading import Settings
from quota.whatif.simulation import simulate


def print_decisions(settings: Settings, requests: str, quotas: Path, name: AlgorithmName) -> None:
    """Print a decision or a dead letter for each line of a file of requests, or of standard input (`-`)."""
    algorithm = algorithm_of(name, settings.quota.window, settings.policy.repeats)
    check(settings.quota.callbacks)
    known = read_quota_log(quotas, settings.quota.callbacks)
    with open_lines(requests) as lines:
        out = sys.stdout.buffer
        for answer in simulate(lines, known, algorithm, settings.topics.requests, settings.policy):
            out.write(codec.encode(answer) + b"\n")
        out.flush()


def open_lines(path: str) -> BinaryIO:
    """A file of lines, or standard input (`-`).

    Raises:
        BadInput: it cannot be opened.
    """
    if path == "-":
        return sys.stdin.buffer
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
