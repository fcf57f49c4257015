"""`simulate` over files."""

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
from quota.settings.model import Settings
from quota.whatif.simulation import read_quotas, simulate


def read_quota_log(file: Path, callbacks: Callbacks) -> CallbackTimeline:
    """The quotas in time that a file makes; one without lines makes none.

    Raises:
        BadInput: it cannot be read; with the line.
    """
    try:
        return read_quotas(file.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n"), callbacks)
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None
    except BadRecord as error:
        raise BadInput(f"{file}:{error}") from None


def print_decisions(settings: Settings, requests: str, quotas: Path, name: AlgorithmName) -> None:
    """Print a decision or a dead letter for each line of a file of requests, or of standard input (`-`)."""
    algorithm = make_algorithm(name, settings.quota.window, settings.policy.repeats)
    check_callbacks(settings.quota.callbacks)
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
