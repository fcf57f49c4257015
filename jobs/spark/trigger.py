"""When a query makes its next batch."""

from typing import Any


def trigger(seconds: float, *, once: bool) -> dict[str, Any]:
    """Arguments of `DataStreamWriter.trigger`: all that is there and then end, or a batch every so many seconds."""
    return {"availableNow": True} if once else {"processingTime": f"{round(seconds * 1000)} milliseconds"}
