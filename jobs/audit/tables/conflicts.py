"""Changes of a table that are tried again while others change it, such as `maintain` or an operator's DELETE."""

from collections.abc import Callable
from contextlib import suppress

_ATTEMPTS = 5
"""How often a change is tried."""


def try_again(change: Callable[[], None], *conflicts: type[Exception]) -> None:
    """Make a change, from its start again after each of these errors; the error of the last attempt is raised."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(*conflicts):
            return change()
    return change()
