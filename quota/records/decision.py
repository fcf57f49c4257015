"""A decision: the answer to one request, and its charges."""

import enum
from collections.abc import Sequence
from typing import Self

import msgspec

from quota.errors import ErrorCode
from quota.records import codec
from quota.records.entity import QuotaEntity, Tags
from quota.records.quota_log import Quota
from quota.records.reason import Reason
from quota.records.record import DebtMs, Int16, Int32, Int64, Positive, Source, TopicLimit
from quota.records.request import (
    STRICT_SINCE,
    Mode,
    MutationRequest,
    Observed,
    Operation,
    TopicDetails,
    TopicMutation,
)

_PERMISSIVE_VERSION = 0
"""An API version whose clients do not know THROTTLING_QUOTA_EXCEEDED."""

_DETAILS = TopicDetails.__struct_fields__


class Outcome(enum.Enum):
    """Whether all, some or none of a request's topics were admitted."""

    ADMITTED = "ADMITTED"
    PARTIAL = "PARTIAL"
    REJECTED = "REJECTED"

    @classmethod
    def of(cls, admitted: Sequence[bool]) -> Self:
        """Return the outcome of a request by whether each of its topics is admitted."""
        return cls.ADMITTED if all(admitted) else cls.PARTIAL if any(admitted) else cls.REJECTED


class TopicDecision(TopicDetails, frozen=True):
    """The answer for one topic, with the details of its request."""

    name: str
    """name of the topic"""
    partitions: Int32
    """cost of the topic: partitions created, added or deleted [mutations]"""
    error_code: Int16
    """Kafka's error code: 0, 44 or 89"""
    error: str
    """Kafka's name of the error: NONE, POLICY_VIOLATION or THROTTLING_QUOTA_EXCEEDED"""
    error_message: str | None
    """reason in a sentence; null if the topic is admitted"""
    reason: Reason | None = None
    """reason of the rejection: EXHAUSTED or EXCEEDS_LIMIT; null if the topic is admitted"""


class Shadow(msgspec.Struct, frozen=True):
    """The answer that a quota in shadow would have given; `error_codes` in the order of the request's topics."""

    outcome: Outcome
    """outcome without shadow: ADMITTED, PARTIAL or REJECTED"""
    error_codes: list[Int16]
    """error code of each topic, 0, 44 or 89, in the request's order"""
    controller_throttle_ms: Int32
    """throttle time of the bucket alone [ms]"""
    throttle_time_ms: Int32
    """throttle time that would have been returned to the client [ms]"""


class Repeat(msgspec.Struct, frozen=True):
    """The decision that admitted the same request before: its first `topics` topics are not charged again."""

    decision_id: str
    """id of the earlier decision, which admitted the same request"""
    topics: Int32
    """number of leading topics that are not charged again; those that exceed the limit are rejected again"""


class Withdrawal(msgspec.Struct, frozen=True):
    """What a withdrawal has given back; nothing if no charge of its request is remembered."""

    decision_id: str | None = None
    """id of the decision that charged the withdrawn request; null if none is remembered"""
    mutations: float = 0.0
    """charge that was given back, up to the burst [mutations]"""


class BucketBefore(msgspec.Struct, frozen=True, omit_defaults=True):
    """The bucket as the request found it, with the quota that it was last used with: the decision follows from them.

    Until `changed_at`, or else the request, the bucket gained tokens at this quota, and from then on at the decision's.
    """

    tokens: float
    """K when it was last written; the burst for a full bucket [mutations]"""
    updated_at: Int64 | None
    """T, the time at which it was last written; null if it was never written, or was reset: it is full [epoch ms]"""
    quota: Positive
    """Q that the bucket was last used with [mutations/s]"""
    burst: Positive
    """B that the bucket was last used with [mutations]"""
    max_debt_ms: DebtMs | None = None
    """bound on debt that the bucket was last used with; null for none [ms]"""
    changed_at: Int64 | None = None
    """time after T from which the decision's quota applies; null if the quota has not changed since T [epoch ms]"""
    set_back_to: Int64 | None = None
    """T as corrected, because the clock that wrote it had been set back; null if it had not [epoch ms]"""
    reset_at: Int64 | None = None
    """time of an operator's reset since T, which filled the bucket; null for none [epoch ms]"""

    def late_ms(self, now: int) -> int:
        """Return the time by which a request at `now` (epoch ms) is before T: it gains no tokens, and waits longer."""
        since = self.updated_at
        return 0 if since is None or now >= since or self.set_back_to is not None else since - now


class Decision(msgspec.Struct, frozen=True):
    """The answer to one request; times in ms, `timestamp` and `retry_at` since the epoch, tokens in mutations.

    Its costs are stated here for Python, and in `docs/reference/tables.md` for SQL.
    """

    decision_id: str
    """id of the decision: topic-partition-offset of the request"""
    request_id: str
    """the sender's id of the request"""
    user: str
    """the principal; ANONYMOUS if the request has none"""
    client_id: str
    """the client-id; '<none>' if the request has none"""
    operation: Operation
    """CREATE_TOPICS, CREATE_PARTITIONS or DELETE_TOPICS"""
    validate_only: bool
    """whether the request is only validated: never charged, never rejected"""
    mode: Mode
    """STRICT: rejected while the bucket is in debt; PERMISSIVE: only throttled"""
    user_tag: str
    """user tag of the bucket; empty if it has none"""
    client_tag: str
    """client-id tag of the bucket; empty if it has none"""
    more_tags: dict[str, str]
    """other tags of the bucket, set by a callback"""
    callback: str | None
    """callback class that resolved the quota; null for the eight levels"""
    quota: Positive | None
    """Q, the quota; null for unlimited [mutations/s]"""
    burst: Positive | None
    """B, the burst; null for unlimited [mutations]"""
    max_debt_ms: DebtMs | None
    """bound on debt of the quota; null for none [ms]"""
    quota_entity: QuotaEntity | None
    """entity whose quota applied, as in the quota log; null for none"""
    exempt: bool
    """whether the settings exempt the user from throttling"""
    outcome: Outcome
    """ADMITTED: all topics; PARTIAL: some; REJECTED: none"""
    topics: list[TopicDecision]
    """answer for each topic, in the request's order"""
    controller_throttle_ms: Int32
    """throttle time of the bucket alone [ms]"""
    request_throttle_ms: Int32
    """throttle time of the request quota, as given in the request [ms]"""
    throttle_time_ms: Int32
    """throttle time that was returned to the client [ms]"""
    retry_at: Int64
    """time at which the client may try again: timestamp + throttle_time_ms [epoch ms]"""
    shadow: Shadow | None
    """answer that a quota in shadow would have given; null if it is not in shadow"""
    tokens_before: float | None
    """K before the request; null for unlimited [mutations]"""
    tokens: float | None
    """K after the request; null for unlimited [mutations]"""
    timestamp: Int64
    """time of the request [epoch ms]"""
    source: Source
    """position of the request in Kafka"""
    apply: bool = False
    """whether an applier carries the mutation out; false if the sender does"""
    expires_at: Int64 | None = None
    """time after which the mutation is no longer started; null for no limit [epoch ms]"""
    repeats: Repeat | None = None
    """earlier decision that this request repeats, so that it is not charged again; null if none"""
    observed: Observed | None = None
    """answer of the cluster, for a request from a request log; null otherwise"""
    bucket_before: BucketBefore | None = None
    """bucket before the request, from which the answer follows; null for unlimited, and in records of older programs"""
    withdraws: Withdrawal | None = None
    """what was given back, if the record withdraws an earlier request; null for a request"""
    max_request_mutations: TopicLimit | None = None
    """most mutations that the quota allows for one topic; null for no limit [mutations]"""
    unrecorded: Int32 = 0
    """number of topics that a gateway, which knew the debt, has rejected without a decision since the last request"""

    def __post_init__(self) -> None:
        for name, answer in (("shadow", self.shadow), ("observed", self.observed)):
            if answer is not None and len(answer.error_codes) != len(self.topics):
                raise ValueError(f"{name}.error_codes: not one for each of the topics")
        if self.repeats is not None and self.repeats.topics > len(self.topics):
            raise ValueError("repeats.topics: more than there are topics")
        if self.outcome is not Outcome.ADMITTED:
            for topic in self.topics:
                # An older program records no reason, and a newer one may record one that is not known here.
                if topic.error_code and (topic.reason is None or topic.reason.code != topic.error_code):
                    msgspec.structs.force_setattr(topic, "reason", Reason.of_codes([topic.error_code]))

    @property
    def request(self) -> MutationRequest:
        """A request that gets the same decision, which does not hold its API version and its time in purgatory.

        This has the lowest version of its mode, and the shortest time that results in its throttle time.
        """
        return MutationRequest(
            self.request_id,
            self.operation,
            STRICT_SINCE[self.operation] if self.mode is Mode.STRICT else _PERMISSIVE_VERSION,
            [
                TopicMutation(topic.name, topic.partitions, **{name: getattr(topic, name) for name in _DETAILS})
                for topic in self.topics
            ],
            self.user,
            self.client_id,
            self.validate_only,
            self.request_throttle_ms,
            self.purgatory_ms,
            self.apply,
            self.expires_at,
            self.observed,
            self.withdraws is not None,
            self.unrecorded,
        )

    @property
    def purgatory_ms(self) -> int:
        """The time subtracted for the purgatory [ms]; it may be more if the request's own throttle was longer."""
        return max(self.verdict.controller_throttle_ms - self.verdict.throttle_time_ms, 0)

    @property
    def bucket_at(self) -> int:
        """T of the bucket after it: the request's time, unless the request was late [epoch ms]."""
        return self.timestamp + (self.bucket_before.late_ms(self.timestamp) if self.bucket_before else 0)

    @property
    def tags(self) -> Tags:
        """The tags of the bucket."""
        return Tags(self.user_tag, self.client_tag, tuple(sorted(self.more_tags.items())))

    @property
    def applied_quota(self) -> Quota | None:
        """The quota that was applied, with its effective burst; None without a quota."""
        if self.quota is None:
            return None
        return Quota(self.quota, self.burst, self.max_debt_ms, max_request_mutations=self.max_request_mutations)

    @property
    def verdict(self) -> "Decision | Shadow":
        """The answer as the quota decided: that of the quota in shadow, or else the decision itself."""
        return self.shadow or self

    @property
    def paid_topics(self) -> int:
        """The number of leading topics that an earlier decision on the same request has charged."""
        return self.repeats.topics if self.repeats else 0

    @property
    def free_topics(self) -> int:
        """The number of leading topics that cost nothing: all topics of a validate-only request, or the paid ones."""
        return len(self.topics) if self.validate_only else self.paid_topics

    @property
    def costs(self) -> list[int]:
        """The mutations that each topic costs if it is admitted, without the free topics."""
        return [topic.partitions for topic in self.topics[self.free_topics :]]

    @property
    def error_codes(self) -> list[int]:
        """The error code of each topic as the quota decided, also where it is in shadow and all are admitted."""
        return self.shadow.error_codes if self.shadow else [topic.error_code for topic in self.topics]

    @property
    def reason(self) -> Reason | None:
        """The first reason of its topics as the quota decided, also where it is in shadow; None if all are admitted."""
        return Reason.of_codes(self.error_codes)

    @property
    def charged(self) -> list[int]:
        """The mutations of each topic that the bucket was charged; empty without a bucket."""
        if self.quota is None:
            return []
        free = self.free_topics
        decided = zip(self.topics[free:], self.error_codes[free:], strict=True)
        return [topic.partitions for topic, code in decided if not code]

    @property
    def admitted(self) -> list[bool]:
        """Whether each topic was admitted in the answer that the client got: always, if the quota is in shadow."""
        return [topic.error_code == ErrorCode.NONE.value for topic in self.topics]

    def differing_fields(self, other: Self) -> list[str]:
        """Return the fields in which another decision on the request differs."""
        return [name for name in self.__struct_fields__ if getattr(self, name) != getattr(other, name)]


def as_received(decision: Decision, received_at: int) -> Decision:
    """Return a decision as of the time of its own record (epoch ms), if the request's time is later: it is wrong.

    The times of the bucket before it are as wrong, and are left out.
    """
    if decision.timestamp <= received_at:
        return decision
    retry_at = received_at + decision.throttle_time_ms
    return msgspec.structs.replace(decision, timestamp=received_at, retry_at=retry_at, bucket_before=None)


_decoder = msgspec.json.Decoder(Decision)


def read_decision(value: bytes | None) -> Decision:
    """Parse a record of the decisions topic."""
    return codec.decode(value, _decoder)
