"""Waiting with a deadline."""

import time

_QUERY_SECONDS = 60


def until(condition, seconds=60, poll_seconds=0.1):
    """Poll a condition until it is true, and return its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not true within {seconds} s"
        time.sleep(poll_seconds)
    return value


def finish(query):
    """Wait for a streaming query to end without an error."""
    assert query.awaitTermination(_QUERY_SECONDS)
    assert query.exception() is None
