"""`simulate` over files."""

import codecs
import sys
from pathlib import Path
from typing import BinaryIO

from quota import codec
from quota.algorithms import AlgorithmName, algorithm_of
from quota.callbacks.loading import check
from quota.callbacks.quotas import CallbackQuotas
from quota.callbacks.setting import Callbacks
from quota.errors import BadInput, BadRecord
from quota.settings import Settings
from quota.simulate import read_quotas, simulate


def print_decisions(settings: Settings, requests: str, quotas: Path, name: AlgorithmName) -> None:
    """Print a decision or a dead letter for each line of a file of requests, or of standard input (`-`)."""
    algorithm = algorithm_of(name, settings.quota.window, settings.policy.repeats)
    check(settings.quota.callbacks)
    known = _read_quotas(quotas, settings.quota.callbacks)
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


def _read_quotas(path: Path, callbacks: Callbacks) -> CallbackQuotas:
    try:
        return read_quotas(path.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n"), callbacks)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except BadRecord as error:
        raise BadInput(f"{path}:{error}") from None
