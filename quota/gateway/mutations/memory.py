"""What a gateway remembers of its clients' mutations; all its channels share it."""

from dataclasses import dataclass, field

from quota.gateway.mutations.debts import Debts
from quota.gateway.mutations.recent import RecentTopics
from quota.gateway.mutations.turns import Turns


@dataclass(slots=True)
class BrokerConfigs:
    """The brokers' own settings, as their responses told them."""

    deletes: bool | None = None
    """Whether topics can be deleted, Kafka's `delete.topic.enable`; None if it is not known."""
    default_partitions: int | None = None
    """Kafka's `num.partitions`; None if it is not known."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a gateway."""

    recent: RecentTopics = field(default_factory=RecentTopics)
    """The topics that were changed lately."""
    debts: Debts = field(default_factory=Debts)
    """The debts that decisions told."""
    changing: Turns = field(default_factory=Turns)
    """The topics that are being changed: each by one request at a time."""
    growing: Turns = field(default_factory=Turns)
    """The users whose growths are validated: one at a time, since the controller handles one request at a time."""
    cluster: BrokerConfigs = field(default_factory=BrokerConfigs)
