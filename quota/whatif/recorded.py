"""Recorded decisions, and the requests that they answered."""

from typing import Any, Self

import msgspec

from quota.admission.policy import Policy
from quota.admission.resolve import Quotas, in_shadow, resolve_quota
from quota.records.decision import Charges, Decision, ErrorCode, Outcome, Repeat, Shadow
from quota.records.record import Record, Source
from quota.records.request import (
    STRICT_SINCE,
    Mode,
    MutationRequest,
    Observed,
    Operation,
    TopicDetails,
    TopicMutation,
)
from quota.timeline.resolution import Resolution, ResolvedRequest

_PERMISSIVE_VERSION = 0
"""An API version whose clients do not know THROTTLING_QUOTA_EXCEEDED."""

_DETAILS = TopicDetails.__struct_fields__

_CONVERTED = ("quota_entity", "topics")
"""The fields that differ in form from those of a decision."""


class RecordedTopic(TopicDetails, frozen=True):
    """A topic of a request, and its answer."""

    name: str
    partitions: int
    error_code: int


class RecordedDecision(Charges, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of a decision that determine its request, and those that deciding it again must reproduce.

    `Decision` cannot be used instead: Spark's JSON of a row leaves nulls out, and the table holds the entity as text.
    """

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
    observed: Observed | None = None

    @classmethod
    def of(cls, decision: Decision) -> Self:
        """Return the recorded form of a decision."""
        entity = decision.quota_entity
        return cls(
            **{name: getattr(decision, name) for name in cls.__struct_fields__ if name not in _CONVERTED},
            quota_entity=None if entity is None else entity.key.decode(),
            topics=[
                RecordedTopic(each.name, each.partitions, each.error_code, **_details(each)) for each in decision.topics
            ],
        )

    @property
    def admitted(self) -> list[bool]:
        """Whether each topic was admitted in the answer that the client got: always, if the quota is in shadow."""
        return [each.error_code == ErrorCode.NONE.value for each in self.topics]

    @property
    def request(self) -> MutationRequest:
        """A request that gets the same decision.

        A decision does not hold the API version and the time in purgatory. This takes the lowest version of its mode,
        and the shortest time that results in its throttle time.
        """
        verdict = self.verdict
        return MutationRequest(
            self.request_id,
            self.operation,
            STRICT_SINCE[self.operation] if self.mode is Mode.STRICT else _PERMISSIVE_VERSION,
            [TopicMutation(each.name, each.partitions, **_details(each)) for each in self.topics],
            self.user,
            self.client_id,
            self.validate_only,
            self.request_throttle_ms,
            max(verdict.controller_throttle_ms - verdict.throttle_time_ms, 0),
            observed=self.observed,
        )

    def resolve(self, quotas: Quotas, policy: Policy) -> Resolution:
        """Return the quota of the request under these quotas.

        Raises:
            BadRecord: a callback failed.
        """
        resolution = resolve_quota(self.user, self.client_id, self.timestamp, quotas, policy)
        return resolution if self.observed is None else in_shadow(resolution)

    def resolved_to(self, resolution: Resolution) -> ResolvedRequest:
        """Return the request with this quota."""
        return ResolvedRequest(Record(self.source, self.timestamp, None), self.request, resolution)


def _details(topic: TopicDetails) -> dict[str, Any]:
    return {name: getattr(topic, name) for name in _DETAILS}
