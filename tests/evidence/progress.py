"""Lines of progress on standard error; standard output has the results."""

import sys
import time
from collections.abc import Callable


def progress() -> Callable[[str], None]:
    """Return a function that prints a line, with the seconds since this call."""
    began = time.monotonic()

    def notify(line: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {line}", file=sys.stderr, flush=True)

    return notify
