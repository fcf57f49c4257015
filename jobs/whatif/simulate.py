"""`simulate` over files."""

import sys
from pathlib import Path
from typing import BinaryIO

from jobs.whatif.quotas import read_quotas_of_file
from quota.algorithms.registry import AlgorithmName, make_algorithm
from quota.callbacks.loading import check_callbacks
from quota.errors import BadInput
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.settings import Settings
from quota.whatif.simulation import simulate


def print_decisions(settings: Settings, requests: str, quota_log: Path, name: AlgorithmName) -> None:
    """Print a decision or a dead letter for each line of a file of requests, or of standard input (`-`).

    The number of invalid lines, if there are any, is printed to standard error.

    Raises:
        BadInput: a file cannot be read, or the algorithm does not support the settings.
    """
    algorithm = make_algorithm(name, settings.quota.window, settings.policy.deduplication)
    check_callbacks(settings.quota.callbacks)
    quotas = read_quotas_of_file(quota_log, settings.quota.callbacks)
    with open_lines(requests) as lines:
        out, answers, invalid = sys.stdout.buffer, 0, 0
        for answer in simulate(lines, quotas, algorithm, settings.topics.requests, settings.policy):
            out.write(codec.encode(answer) + b"\n")
            answers += 1
            invalid += isinstance(answer, DeadLetter)
        out.flush()
    if invalid:
        are = "is an invalid request" if invalid == 1 else "are invalid requests"
        print(f"{invalid:,} of {answers:,} lines {are}", file=sys.stderr)


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
