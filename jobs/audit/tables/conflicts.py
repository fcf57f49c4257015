"""Retries changes of a table that conflict with others, such as those of `maintain` or an operator's DELETE."""

from collections.abc import Callable
from contextlib import suppress

_ATTEMPTS = 5
"""The number of attempts, including the first."""


def retry(change: Callable[[], None], *conflicts: type[Exception]) -> None:
    """Call `change`, again after each of the errors `conflicts`; the error of the last attempt is raised."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(*conflicts):
            return change()
    return change()
