"""`simulate` over files, and the quota log in a file."""

import codecs
import sys
from pathlib import Path
from typing import BinaryIO

from quota.algorithms.registry import AlgorithmName, make_algorithm
from quota.callbacks.loading import check_callbacks
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadInput, BadRecord
from quota.records import codec
from quota.records.callback import Callbacks
from quota.settings import Settings
from quota.whatif.simulation import read_quotas, simulate


def read_quota_log_file(file: Path, callbacks: Callbacks) -> CallbackTimeline:
    """Read the quota log in a file, which may be empty.

    Raises:
        BadInput: the file cannot be read; with the line.
    """
    try:
        return read_quotas(file.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n"), callbacks)
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None
    except BadRecord as error:
        raise BadInput(f"{file}:{error}") from None


def print_decisions(settings: Settings, requests: str, quota_log: Path, name: AlgorithmName) -> None:
    """Print a decision or a dead letter for each line of a file of requests, or of standard input (`-`).

    Raises:
        BadInput: a file cannot be read, or the algorithm does not support the settings.
    """
    algorithm = make_algorithm(name, settings.quota.window, settings.policy.deduplication)
    check_callbacks(settings.quota.callbacks)
    quotas = read_quota_log_file(quota_log, settings.quota.callbacks)
    with open_lines(requests) as lines:
        out = sys.stdout.buffer
        for answer in simulate(lines, quotas, algorithm, settings.topics.requests, settings.policy):
            out.write(codec.encode(answer) + b"\n")
        out.flush()


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
