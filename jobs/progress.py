"""Tells on standard error what a command is doing while its user waits."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Console
from rich.text import Text

from jobs.background import background

Tell: TypeAlias = Callable[[str], None]
"""Replaces the words that are shown."""

_LINE_SECONDS = 10.0


@contextmanager
def progress(words: str) -> Iterator[Tell]:
    """Show what is being done until the block ends, which may replace the words.

    On a terminal they are shown at once, and erased at the end. Elsewhere the words of the moment are a line every
    10 s, so a quick command prints none.
    """

    def tell(replaced: str) -> None:
        nonlocal words
        words = replaced
        status.update(Text(words))

    def print_lines(stop: threading.Event) -> None:
        while not stop.wait(_LINE_SECONDS):
            print(words, file=sys.stderr, flush=True)

    console = Console(stderr=True)
    with console.status(Text(words)) as status:
        if console.is_terminal:
            yield tell
        else:
            with background(print_lines, "progress"):
                yield tell
