"""Which buckets are listed, and in which order."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class Order(enum.Enum):
    """What a list is sorted by."""

    TOKENS = "tokens"
    FULL_IN = "full-in"
    UPDATED = "updated"
    RATE = "rate"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which buckets are listed, in which order, and how many at most."""

    tags: Mapping[str, str]
    """Those that have all of these; all if there are none."""
    in_debt: bool
    """Only those that are."""
    order: Order
    limit: int

    @property
    def is_all(self) -> bool:
        """Whether each bucket is wanted."""
        return not (self.tags or self.in_debt)
