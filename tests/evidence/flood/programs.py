"""The jobs as processes, as an operator starts them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quota.errors import MutationQuotaError
from quota.settings.model import Settings
from tests.support.deployments import as_options

_END_SECONDS = 180


def command(settings: Settings, *args: str) -> list[str]:
    """A command of the program on a deployment."""
    root = ["--set", f"storage.root={settings.storage.root}"]
    return [sys.executable, "-c", "from jobs.__main__ import main; main()", *args, *as_options(settings), *root]


@contextmanager
def running(settings: Settings, log: Path, *args: str) -> Iterator[subprocess.Popen]:
    """A job inside the block, its output in a file.

    Raises:
        MutationQuotaError: it did not end well; with the end of what it said.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(command(settings, *args), stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        try:
            code = process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    if code:
        raise MutationQuotaError(f"{args[0]} ended with {code}: {log.read_text(errors='replace')[-500:]}")
