"""Waiting for something to come true, with a deadline."""

import time


def until(condition, seconds=60, look_seconds=0.1):
    """Return once it is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "in vain"
        time.sleep(look_seconds)
