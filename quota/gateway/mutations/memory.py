"""What a gateway remembers of its clients' mutations; all its channels share it."""

from dataclasses import dataclass, field

from quota.gateway.mutations.debts import Debts
from quota.gateway.mutations.recent import RecentTopics
from quota.gateway.mutations.turns import Turns


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a gateway."""

    recent: RecentTopics = field(default_factory=RecentTopics)
    """The topics that were changed lately."""
    debts: Debts = field(default_factory=Debts)
    """The debts that decisions told."""
    growing: Turns = field(default_factory=Turns)
    """The validations of growths that run or wait."""
