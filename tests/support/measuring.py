"""What a block takes: memory, and calls of functions as a measure of work that is the same on each machine."""

import sys
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


@contextmanager
def counted_calls():
    """Count the calls of functions in the block, also of those in C; what is yielded returns their number so far."""
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event in {"call", "c_call"}

    outer = sys.getprofile()
    sys.setprofile(count)
    try:
        yield lambda: calls
    finally:
        sys.setprofile(outer)
