"""Waiting with a deadline."""

import asyncio
import time

_QUERY_SECONDS = 60


def until(condition, seconds=60, poll_seconds=0.1):
    """Poll a condition until it is true, and return its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not true within {seconds} s"
        time.sleep(poll_seconds)
    return value


async def eventually(condition, seconds=60, poll_seconds=0.01):
    """Poll a condition until it is true, while the event loop runs."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 counts have no event
            await asyncio.sleep(poll_seconds)


def finish(query):
    """Wait for a streaming query to end without an error."""
    assert query.awaitTermination(_QUERY_SECONDS)
    assert query.exception() is None
