"""Work on a thread of its own for as long as a block runs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def background(work: Callable[[threading.Event], None], name: str, join_seconds: float | None = None) -> Iterator[None]:
    """Run `work` on a daemon thread until the block ends.

    Args:
        work: called once with an event; returns soon after the event is set.
        name: the thread's name.
        join_seconds: how long to wait for the thread at the end of the block; None waits until it has ended.
    """
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(join_seconds)
