"""The commands of a deployment as processes."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quota.errors import MutationQuotaError
from quota.settings import Settings
from tests.support.deployment import as_options
from tests.support.programs import command_line

_END_SECONDS = 180


def command(settings: Settings, *args: str) -> list[str]:
    """Return the command line of a command on a deployment."""
    root = ["--set", f"storage.root={settings.storage.root}"]
    return command_line(*args, *as_options(settings), *root)


@contextmanager
def running(settings: Settings, log: Path, *args: str) -> Iterator[subprocess.Popen]:
    """Run a job inside the block, with its output in a file."""
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
