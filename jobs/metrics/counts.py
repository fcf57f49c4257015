"""What a decision was asked for in earnest, and what became of it, added up."""

from dataclasses import dataclass
from typing import Self

from quota.records.decision import Decision, free_topics


@dataclass(frozen=True, slots=True)
class MutationCounts:
    """Topics, and mutations (the partitions that they cost), of one decision.

    What only asks if it could be done (`validate_only`) counts for nothing, and so does what was admitted before and
    is not charged again (`repeats`).
    """

    topics_admitted: int = 0
    topics_refused: int = 0
    mutations_admitted: int = 0
    mutations_refused: int = 0
    charged: int = 0
    """Mutations that the bucket was charged: of a quota in shadow those that it would have admitted."""
    shadow_refused: int = 0
    """Topics that a quota in shadow would have refused."""

    @classmethod
    def of(cls, decision: Decision) -> Self:
        """Add up the topics of a decision."""
        free = free_topics(len(decision.topics), decision.repeats, validate_only=decision.validate_only)
        topics = decision.topics[free:]
        judged = decision.shadow.error_codes[free:] if decision.shadow else [topic.error_code for topic in topics]
        refused = [topic for topic in topics if topic.error_code]
        all_mutations, refused_mutations = (sum(topic.partitions for topic in some) for some in (topics, refused))
        admitted = (topic.partitions for topic, code in zip(topics, judged, strict=True) if not code)
        return cls(
            len(topics) - len(refused),
            len(refused),
            all_mutations - refused_mutations,
            refused_mutations,
            0 if decision.quota is None else sum(admitted),
            sum(map(bool, judged)) if decision.shadow else 0,
        )

    @property
    def mutations(self) -> int:
        """Admitted or not."""
        return self.mutations_admitted + self.mutations_refused
