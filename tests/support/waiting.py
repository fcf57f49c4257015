"""Waiting for something to come true, with a deadline."""

import time


def until(condition, seconds=60, look_seconds=0.1):
    """Return what it is once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "in vain"
        time.sleep(look_seconds)
    return found
