"""Another release of PySpark than the known one."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jobs.spark import keyed


@contextmanager
def another_release() -> Iterator[None]:
    """Inside the block, stages are created as with another release of PySpark: they use pandas, also in workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed, "RELEASE", "another")
        yield
