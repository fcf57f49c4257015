"""`simulate`: decides the requests of a file."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from jobs.whatif.quotas import read_quotas_of_file
from quota.callbacks.loading import check_callbacks
from quota.errors import BadInput
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision
from quota.settings import Settings
from quota.whatif.rates import AlgorithmName, make_algorithm
from quota.whatif.simulation import simulate


def decide_file(
    settings: Settings, requests: str, quota_file: Path, name: AlgorithmName
) -> Iterator[Decision | DeadLetter]:
    """Decide each line of a file of requests, or of standard input (`-`).

    Yields:
        A decision or a dead letter for each line that is not blank, in the order of the lines.

    Raises:
        BadInput: a file cannot be read, or the algorithm does not support the settings.
    """
    algorithm = make_algorithm(name, settings.quota.window, settings.policy.deduplication)
    check_callbacks(settings.quota.callbacks)
    quotas = read_quotas_of_file(quota_file, settings.quota.callbacks)
    with open_lines(requests) as lines:
        yield from simulate(lines, quotas, algorithm, settings.topics.requests, settings.policy)


def open_lines(path: str) -> BinaryIO:
    """Open a file of lines, or standard input (`-`).

    Raises:
        BadInput: the file cannot be opened.
    """
    if path == "-":
        return sys.stdin.buffer
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
