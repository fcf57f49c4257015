"""Ctrl-C and SIGTERM in a command, from its first import on; to import this module installs the handler."""

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType

INTERRUPTED = 130
"""The exit code of a command that is interrupted."""

_GRACE_SECONDS = 1.0
"""How long a call into a library, such as librdkafka's wait for a broker, may delay the handler."""

_AGAIN_SECONDS = 0.1
"""How soon after an interrupt that is swallowed there is another one."""

_MAX_SIGNALS = 64
"""Signals that are read at once: those that come in quick succession are handled once."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_handled = 0
"""The number of signals that handlers have taken."""


def count_signal() -> None:
    """Count a signal that a handler has taken: another handler than `on_interrupt` may be replaced by it soon after."""
    global _handled  # noqa: PLW0603 a handler has no other place, and may not take a lock
    _handled += 1


def on_interrupt(_number: int, frame: FrameType | None) -> None:
    """Exit while the process imports modules; raise `KeyboardInterrupt` otherwise, so that a command cleans up.

    An import that is broken off shows where in modules of others, and nothing was begun before it that needs an end.

    Raises:
        KeyboardInterrupt: the process runs a command.
    """
    count_signal()
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


def exit_interrupted() -> None:
    """Exit; another signal does not disturb the end of the interpreter.

    Raises:
        SystemExit: always.
    """
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    sys.exit(INTERRUPTED)


def watch_interrupts() -> None:
    """Let a command exit on a signal although its main thread waits in a library, or an interrupt is swallowed."""
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


def _exit_if_stuck(signals: int) -> None:
    """Exit if the handler has not taken a signal in time: the main thread is in a library's call, which Python awaits.

    Where another handler is installed, as in services, nothing is done.

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
    """Let a forked process keep its signals from its parent's thread."""
    with suppress(ValueError):
        signal.set_wakeup_fd(-1)


for each in _SIGNALS:
    if signal.getsignal(each) is not signal.SIG_IGN:  # as a shell has it for what runs in the background
        signal.signal(each, on_interrupt)
