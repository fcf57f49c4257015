"""The number of function calls in a block: a measure of its work that is the same on each machine."""

import sys
from contextlib import contextmanager


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
