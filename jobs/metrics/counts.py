"""Counts the effective topics and mutations of decisions."""

from dataclasses import dataclass
from typing import Self

from quota.records.decision import Decision


@dataclass(frozen=True, slots=True)
class MutationCounts:
    """The effective topics of decisions, and their mutations (the partitions that they cost)."""

    topics_admitted: int = 0
    topics_refused: int = 0
    mutations_admitted: int = 0
    mutations_refused: int = 0
    charged: int = 0
    """Mutations charged to the bucket; for a quota in shadow, the mutations that it would have admitted."""
    shadow_refused: int = 0
    """Topics that a quota in shadow would have refused."""

    @classmethod
    def of(cls, decision: Decision) -> Self:
        """Count the topics of a decision."""
        free = decision.free_topics
        refused = [topic.error_code != 0 for topic in decision.topics[free:]]
        refused_mutations = sum(cost for cost, is_refused in zip(decision.costs, refused, strict=True) if is_refused)
        return cls(
            topics_admitted=len(refused) - sum(refused),
            topics_refused=sum(refused),
            mutations_admitted=sum(decision.costs) - refused_mutations,
            mutations_refused=refused_mutations,
            charged=sum(decision.charged),
            shadow_refused=sum(map(bool, decision.error_codes[free:])) if decision.shadow else 0,
        )

    def __add__(self, other: "MutationCounts") -> "MutationCounts":
        return MutationCounts(*(getattr(self, name) + getattr(other, name) for name in MutationCounts.__slots__))

    @property
    def mutations(self) -> int:
        """Admitted and refused mutations."""
        return self.mutations_admitted + self.mutations_refused
