"""Handles Ctrl-C and SIGTERM: in a command from its first import on, and in a service for a graceful stop.

Importing this module installs the handler of commands.
"""

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

INTERRUPTED = 130
"""The exit code of a command that is interrupted."""

_GRACE_SECONDS = 1.0
"""The maximum time for which a call of a library, such as librdkafka's wait for a broker, may delay the handler."""

_AGAIN_SECONDS = 0.1
"""The time between a lost interrupt and the next one [s]."""

_MAX_SIGNALS = 64
"""The number of signals that are read at once; signals in quick succession are handled once."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_handled = 0
"""The number of signals that handlers have processed."""


def _count_signal() -> None:
    """Count a signal that a handler has processed; `on_interrupt` may soon replace the handler of `stop_signals`."""
    global _handled  # noqa: PLW0603 a signal handler must not use a lock
    _handled += 1


def on_interrupt(_number: int, frame: FrameType | None) -> None:
    """Exit while the process imports modules; raise `KeyboardInterrupt` otherwise, so that a command cleans up.

    An interrupted import would print a traceback of other modules, and there is nothing to clean up yet.

    Raises:
        KeyboardInterrupt: the process runs a command.
    """
    _count_signal()
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


def exit_interrupted() -> None:
    """Exit, and ignore signals during the interpreter's shutdown.

    Raises:
        SystemExit: always.
    """
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    sys.exit(INTERRUPTED)


def watch_interrupts() -> None:
    """Make a command exit on a signal even if its main thread waits in a library, or an interrupt is lost."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=_forget_signals)
    threading.Thread(target=_exit_if_stuck, args=(reading,), name="signals", daemon=True).start()
    hook = sys.unraisablehook

    def interrupt_again(ignored: "sys.UnraisableHookArgs") -> None:
        if ignored.exc_type is KeyboardInterrupt:  # in a hook of a fork or a destructor, whose exceptions are lost
            threading.Timer(_AGAIN_SECONDS, signal.raise_signal, (signal.SIGINT,)).start()
        else:
            hook(ignored)

    sys.unraisablehook = interrupt_again


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C or SIGTERM sets, for a graceful stop; a second signal raises `KeyboardInterrupt`."""
    stop = threading.Event()

    def on_signal(*_: object) -> None:
        _count_signal()
        if stop.is_set():
            raise KeyboardInterrupt
        # On another thread, as this one may hold the lock of the event, which `wait` takes for a moment.
        _thread.start_new_thread(stop.set, ())

    previous = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _exit_if_stuck(signals: int) -> None:
    """Exit if the handler has not processed a signal in time, because the main thread waits in a library call.

    Other handlers, such as those of services, are left alone.

    Args:
        signals: a file descriptor from which the number of each signal is read.
    """
    before = _handled
    while numbers := os.read(signals, _MAX_SIGNALS):
        for_command = signal.getsignal(numbers[0]) is on_interrupt
        time.sleep(_GRACE_SECONDS)
        if for_command and _handled == before and signal.getsignal(numbers[0]) is on_interrupt:
            os._exit(INTERRUPTED)
        before = _handled


def _forget_signals() -> None:
    """Detach a forked process from the signal thread of its parent."""
    with suppress(ValueError):
        signal.set_wakeup_fd(-1)


for each in _SIGNALS:
    if signal.getsignal(each) is not signal.SIG_IGN:  # shells ignore SIGINT in background processes
        signal.signal(each, on_interrupt)
