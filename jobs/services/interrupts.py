"""Ctrl-C and SIGTERM in a command, from its first import on; to import this module installs the handler."""

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
"""The exit code of a command that is interrupted."""


def on_interrupt(_number: int, frame: FrameType | None) -> None:
    """End the process while it imports modules; raise `KeyboardInterrupt` otherwise, so that a command cleans up.

    An import that is broken off shows where in modules of others, and nothing was begun before it that needs an end.

    Raises:
        KeyboardInterrupt: the process runs a command.
    """
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
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    sys.exit(INTERRUPTED)


for each in (signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(each) is not signal.SIG_IGN:  # as a shell has it for what runs in the background
        signal.signal(each, on_interrupt)
