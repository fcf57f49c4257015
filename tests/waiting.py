"""Waiting for something to come true, with a deadline."""

import time


def until(condition, seconds=60):
    """Return once it is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "in vain"
        time.sleep(0.1)
