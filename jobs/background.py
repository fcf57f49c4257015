"""Background work: on a thread while a block runs, or in a process that ends with the program."""

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)
"""Loaded here, because a process that was forked from one with several threads may not wait for locks."""


@contextmanager
def background(work: Callable[[threading.Event], None], name: str, join_seconds: float | None = None) -> Iterator[None]:
    """Run `work` on a daemon thread until the block ends.

    `work` is called once, and returns soon after its event is set. Without `join_seconds` the block waits for it.
    """
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(join_seconds)


def end_with_parent(sent: signal.Signals, parent: int) -> None:
    """Have the Linux kernel send a signal to this process when its parent ends for any reason."""
    _libc.prctl(_PR_SET_PDEATHSIG, sent)
    if os.getppid() != parent:
        os.kill(os.getpid(), sent)
