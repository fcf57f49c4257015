"""Handles the signals that stop a service."""

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from jobs.services.interrupts import count_signal


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C or SIGTERM sets, for a graceful stop; a second signal raises `KeyboardInterrupt`."""
    stop = threading.Event()

    def on_signal(*_: object) -> None:
        count_signal()
        if stop.is_set():
            raise KeyboardInterrupt
        # On another thread, as this one may hold the lock of the event, which `wait` takes for a moment.
        _thread.start_new_thread(stop.set, ())

    previous = {each: signal.signal(each, on_signal) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)
