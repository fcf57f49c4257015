"""What the cluster consists of, as far as quotas may depend on it (KIP-257)."""

from typing import Annotated

import msgspec

_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Broker = Annotated[int, msgspec.Meta(ge=0)]


class Cluster(msgspec.Struct, frozen=True):
    """Topics, and for each of their partitions the broker that leads it; None while no one does."""

    topics: dict[_Name, list[_Broker | None]]
    """By the topic's name, the leader's id for each partition."""

    @property
    def partitions(self) -> int:
        """The number of all partitions."""
        return sum(len(leaders) for leaders in self.topics.values())
