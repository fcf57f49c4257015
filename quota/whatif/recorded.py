"""A decision as the audit keeps it: the request that was judged, and the verdict that it got."""

from typing import Any, Self

import msgspec

from quota.admission.policy import Policy
from quota.admission.resolve import Quotas, judged_by
from quota.records.decision import Decision, ErrorCode, Outcome, Repeat, Shadow, free_topics
from quota.records.record import Record, Source
from quota.records.request import STRICT_SINCE, Mode, MutationRequest, Operation, TopicDetails, TopicMutation
from quota.timeline.resolution import Resolution, ResolvedRequest

_OLD_VERSION = 0
"""An API version whose clients do not know the error."""

_DETAILS = TopicDetails.__struct_fields__


_OTHERWISE = ("quota_entity", "topics")
"""What the audit keeps in another form than the decision has."""


class RecordedTopic(TopicDetails, frozen=True):
    """A topic of a request, and what was said of it."""

    name: str
    partitions: int
    error_code: int


class RecordedDecision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What of a decision tells the request, and what a decision made again must come to."""

    decision_id: str
    request_id: str
    user: str
    client_id: str
    operation: Operation
    validate_only: bool
    mode: Mode
    user_tag: str
    client_tag: str
    more_tags: dict[str, str] = {}
    callback: str | None = None
    quota: float | None = None
    burst: float | None = None
    max_debt_ms: int | None = None
    quota_entity: str | None = None
    exempt: bool = False
    outcome: Outcome
    topics: list[RecordedTopic]
    controller_throttle_ms: int
    request_throttle_ms: int
    throttle_time_ms: int
    retry_at: int
    shadow: Shadow | None = None
    tokens_before: float | None = None
    tokens: float | None = None
    timestamp: int
    source: Source
    repeats: Repeat | None = None

    @classmethod
    def of(cls, decision: Decision) -> Self:
        """What is kept of a decision."""
        entity = decision.quota_entity
        return cls(
            **{name: getattr(decision, name) for name in cls.__struct_fields__ if name not in _OTHERWISE},
            quota_entity=None if entity is None else entity.key.decode(),
            topics=[
                RecordedTopic(each.name, each.partitions, each.error_code, **_details(each)) for each in decision.topics
            ],
        )

    @property
    def admitted(self) -> list[bool]:
        """By topic, what the client was told."""
        return [each.error_code == ErrorCode.NONE.value for each in self.topics]

    @property
    def charges(self) -> list[int]:
        """Mutations of each topic that is charged if it is admitted.

        None where the request is only to be validated, and not the first topics that were paid for before.
        """
        return [each.partitions for each in self.topics[self.free :]]

    @property
    def free(self) -> int:
        """How many of the first topics cost nothing."""
        return free_topics(len(self.topics), self.repeats, validate_only=self.validate_only)

    @property
    def request(self) -> MutationRequest:
        """The request: one that is judged as it was.

        What a decision does not say is taken as what gives the same: the lowest version of its mode, and the shortest
        stay in purgatory.
        """
        judged = self.shadow or self
        return MutationRequest(
            self.request_id,
            self.operation,
            STRICT_SINCE[self.operation] if self.mode is Mode.STRICT else _OLD_VERSION,
            [TopicMutation(each.name, each.partitions, **_details(each)) for each in self.topics],
            self.user,
            self.client_id,
            self.validate_only,
            self.request_throttle_ms,
            max(judged.controller_throttle_ms - judged.throttle_time_ms, 0),
        )

    def resolution(self, quotas: Quotas, policy: Policy) -> Resolution:
        """What the request is judged by: its own quota, or another.

        Raises:
            BadRecord: a callback failed.
        """
        return judged_by(self.user, self.client_id, self.timestamp, quotas, policy)

    def judged_by(self, resolution: Resolution) -> ResolvedRequest:
        """The request, to be judged by that."""
        return ResolvedRequest(Record(self.source, self.timestamp, None), self.request, resolution)


def _details(topic: TopicDetails) -> dict[str, Any]:
    return {name: getattr(topic, name) for name in _DETAILS}
