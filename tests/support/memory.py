"""The memory that a block takes."""

import tracemalloc
from contextlib import contextmanager


@contextmanager
def traced_memory():
    """Trace what the block allocates; what is yielded returns the peak (bytes), also after the block."""
    peaks = []
    tracemalloc.start()
    try:
        yield lambda: peaks[0]
    finally:
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
