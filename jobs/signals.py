"""What Ctrl-C and SIGTERM do, from the first import of a command on; importing this module installs the handler.

The handler decides by what the process does:

- a service runs (`stop_signals`): the first signal sets its event, for a graceful stop, and the second one interrupts;
- the process has a JVM (`killing_on_signal`): the signal kills the JVM, and interrupts;
- modules are imported: the process exits at once, because there is nothing to clean up;
- otherwise the signal interrupts: it raises `KeyboardInterrupt`, so that a command cleans up.
"""

import _thread
import os
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

INTERRUPTED = 130
"""The exit code of a command that is interrupted."""

_GRACE_SECONDS = 1.0
"""The maximum time for which a call of a library, such as librdkafka's wait for a broker, may delay the handler."""

_CANCEL_SECONDS = 5.0
"""The maximum time for which a call may delay it after it was cancelled."""

_AGAIN_SECONDS = 0.1
"""The time between a lost interrupt and the next one [s]."""

_MAX_SIGNALS = 64
"""The number of signals that are read at once; signals in quick succession are handled once."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Killable(ABC):
    """A process that signals kill, in a block of `killing_on_signal`."""

    has_killed = False
    """Whether a signal has killed it."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the process, if there is one, without waiting for its end."""


class _State:
    """What the process does. A signal handler must not use a lock."""

    stop: threading.Event | None = None
    killable: Killable | None = None
    cancel: Callable[[], object] | None = None
    handled = 0
    """The number of signals that were handled."""


def _on_signal(_number: int, frame: FrameType | None) -> None:
    _State.handled += 1
    stop, killable = _State.stop, _State.killable
    if stop is not None:
        if not stop.is_set():
            # On another thread, as this one may hold the lock of the event, which `wait` takes for a moment.
            _thread.start_new_thread(stop.set, ())
            return
    elif killable is not None:
        again, killable.has_killed = killable.has_killed, True
        killable.kill()
        # Within PySpark, an exception would leave its connection in an unknown state; the call fails by itself. Where
        # the process is started or awaited, it would lose the process.
        if _is_within(frame, "jobs.spark.jvm") or (not again and _is_within(frame, "py4j.", "pyspark.")):
            return
    elif _is_within(frame, "importlib._bootstrap", "_frozen_importlib"):  # it would print a traceback of other modules
        os._exit(INTERRUPTED)
    raise KeyboardInterrupt


def _is_within(frame: FrameType | None, *modules: str) -> bool:
    """Return whether a frame is within a call of one of these modules, which are prefixes of names."""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(modules):
            return True
        frame = frame.f_back
    return False


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C or SIGTERM sets, for a graceful stop; a second signal interrupts."""
    with _handler():
        before, _State.stop = _State.stop, threading.Event()
        try:
            yield _State.stop
        finally:
            _State.stop = before


@contextmanager
def killing_on_signal(killable: Killable) -> Iterator[None]:
    """Make a signal kill a process inside the block, which then ends with `KeyboardInterrupt`."""
    if threading.current_thread() is not threading.main_thread():  # other threads receive no signals
        yield
        return
    with _handler():
        before, _State.killable = _State.killable, killable
        try:
            yield
        except Exception:
            if killable.has_killed:
                raise KeyboardInterrupt from None
            raise
        finally:
            _State.killable = before
    if killable.has_killed:
        raise KeyboardInterrupt


@contextmanager
def cancelling_on_signal(cancel: Callable[[], object]) -> Iterator[None]:
    """Call a function, on another thread, when a signal interrupts the block: it ends the call of a library.

    The error of that call becomes a `KeyboardInterrupt`.
    """
    if threading.current_thread() is not threading.main_thread():  # other threads receive no signals
        yield
        return
    before, _State.cancel = _State.cancel, cancel
    handled = _State.handled
    try:
        yield
    except Exception:
        if _State.stop is None and _State.handled > handled:
            raise KeyboardInterrupt from None
        raise
    finally:
        _State.cancel = before


@contextmanager
def _handler() -> Iterator[None]:
    """Handle signals inside the block, also if they were ignored, as in the background of a shell."""
    previous = {number: signal.signal(number, _on_signal) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def exit_interrupted() -> None:
    """Exit, and ignore signals during the interpreter's shutdown."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
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


def _exit_if_stuck(signals: int) -> None:
    """Exit if a command has not handled a signal in time, because its main thread waits in a library call."""
    before = _State.handled
    while numbers := os.read(signals, _MAX_SIGNALS):
        interrupts = _only_interrupts(numbers[0])
        time.sleep(_CANCEL_SECONDS if interrupts and _cancel() else _GRACE_SECONDS)
        if interrupts and _State.handled == before and _only_interrupts(numbers[0]):
            os._exit(INTERRUPTED)
        before = _State.handled


def _cancel() -> bool:
    """Cancel the call of a library, and return whether there is one. No frame of a thread may keep its objects."""
    cancel = _State.cancel
    if cancel is not None:
        cancel()
    return cancel is not None


def _only_interrupts(number: int) -> bool:
    """Return whether a signal only interrupts: there is no service to stop, and no JVM to kill."""
    return signal.getsignal(number) is _on_signal and _State.stop is None and _State.killable is None


def _forget_signals() -> None:
    """Detach a forked process from the signal thread of its parent."""
    with suppress(ValueError):
        signal.set_wakeup_fd(-1)


for number in _SIGNALS:
    if signal.getsignal(number) is not signal.SIG_IGN:  # shells ignore SIGINT in background processes
        signal.signal(number, _on_signal)
