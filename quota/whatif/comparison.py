"""The comparison of a cluster's answers with our decisions on the same requests, and the causes of differences."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from quota.admission.policy import Policy
from quota.admission.resolve import resolve
from quota.algorithms.token_bucket import Bucket, TokenBucket, tokens_at
from quota.callbacks.timeline import CallbackTimeline
from quota.records.dead_letter import DeadLetter
from quota.records.entity import Tags
from quota.records.quota import Limit, Quota
from quota.records.record import Record
from quota.records.request import NO_CLIENT_ID, Mode, MutationRequest, Observed
from quota.timeline.resolution import ResolvedRequest
from quota.whatif.kafka_bucket import KafkaAnswer, KafkaBucket, KafkaDifference

ASSUMED = "its cost is not in the log"
OTHER_QUOTA = "the cluster has another quota for it, or none: even full buckets do not explain it"
UNEXPLAINED = "not explained"

_MAX_SHOWN = 1000
"""The maximum number of disagreements that are stored in full."""

_ROUNDED_MS = 1
_SEVERAL = 2
_FAILOVER_MS = 3_600_000


class Disagreement(msgspec.Struct, frozen=True):
    """A request that the cluster answered differently."""

    request_id: str
    at: int
    user: str
    client_id: str
    operation: str
    topics: list[str]
    partitions: list[int]
    cluster_error_codes: list[int]
    our_error_codes: list[int]
    cluster_throttle_ms: int
    our_throttle_ms: int
    causes: list[str]
    """Rows of docs/explanation/differences-from-kafka.md, or the reason why there is none."""


@dataclass
class Comparison:
    """The outcome of a comparison."""

    requests: int = 0
    limited: int = 0
    """Requests that have a quota."""
    agreeing: int = 0
    refused_by_both: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    """The number of requests that were answered differently, by cause."""
    shown: list[Disagreement] = field(default_factory=list)

    @property
    def differing(self) -> int:
        """The number of requests that were answered differently."""
        return self.limited - self.agreeing

    @property
    def unexplained(self) -> int:
        """The number of requests that were answered differently for an unknown reason."""
        return self.causes[UNEXPLAINED]


@dataclass(slots=True)
class _Buckets:
    ours: Bucket | None = None
    kafka: KafkaBucket = field(default_factory=KafkaBucket)
    filled_at: int | None = None
    """When the cluster was last assumed to have lost its buckets, as in a failover [epoch ms]."""
    slack_ms: int = 0
    """How much later than assumed the cluster may have charged them since they were last full [ms]."""


class _Case(NamedTuple):
    """An observed request, with its quota here and in Kafka."""

    resolved: ResolvedRequest
    observed: Observed
    kafka_limit: Limit | None

    @property
    def admitted(self) -> list[bool]:
        """Whether the cluster has admitted each topic."""
        return [code == 0 for code in self.observed.error_codes]

    @property
    def cost(self) -> int:
        """The cost of the topics that the cluster has admitted [mutations]."""
        topics = self.resolved.request.topics
        return sum(topic.partitions for topic, admit in zip(topics, self.admitted, strict=True) if admit)

    def agrees(self, answer: Callable[[int], KafkaAnswer], slack_ms: int = 0) -> bool:
        """Return whether the cluster's answer equals ours at some time during its processing of the request.

        The client gets the throttle time that remains when it is answered, which is up to `took_ms` shorter.

        Args:
            answer: the answer at a given time [epoch ms].
            slack_ms: how much later than assumed the bucket may have been charged [ms].
        """
        at, took = self.observed.at, self.observed.took_ms
        answers = [answer(moment) for moment in (at - slack_ms, at, at + took)]
        waits = [each.throttle_ms for each in answers if each.admitted == self.admitted]
        if not any(waits):
            return bool(waits)  # the client's throttle time then comes from its request quota
        return min(waits) - took - _ROUNDED_MS <= self.observed.throttle_time_ms <= max(waits) + _ROUNDED_MS

    def is_in_another_order(self, answer: KafkaAnswer) -> bool:
        """Return whether the cluster may have admitted other topics with the same tokens, in another order."""
        request, admitted, tokens = self.resolved.request, self.admitted, answer.tokens
        if admitted == answer.admitted:
            return False
        costs = [topic.partitions for topic, admit in zip(request.topics, admitted, strict=True) if admit]
        if request.mode is not Mode.STRICT or len(admitted) < _SEVERAL or tokens < 0 or not costs:
            return False
        return sum(costs) - max(costs) <= tokens and (all(admitted) or tokens < sum(costs))


class Comparer:
    """Compares requests in the order of time.

    Both buckets are charged what the cluster has admitted, so that one difference is not counted again and again.
    """

    def __init__(self, quotas: CallbackTimeline, policy: Policy, algorithm: TokenBucket) -> None:
        """Begin with full buckets.

        Args:
            quotas: the quotas that were in force.
            policy: the settings that apply to all requests.
            algorithm: the token bucket, with the brokers' window.
        """
        self.found = Comparison()
        self._quotas, self._policy, self._algorithm = quotas, policy, algorithm
        self._window = algorithm.window
        self._buckets: dict[Tags, _Buckets] = {}

    def compare(self, record: Record) -> DeadLetter | None:
        """Compare an observed request; return a dead letter if it is invalid.

        A request that was not observed is ignored.
        """
        resolved = resolve(record, self._quotas, self._policy)
        if isinstance(resolved, DeadLetter):
            return resolved
        observed = resolved.request.observed
        if observed is None or len(observed.error_codes) != len(resolved.request.topics):
            return None
        self.found.requests += 1
        case = _Case(resolved, observed, self._kafka_limit(resolved))
        if resolved.resolution.limit is None and case.kafka_limit is None:
            self._fill_unlimited(resolved.request)
        else:
            self._compare(case)
        return None

    def _compare(self, case: _Case) -> None:
        buckets = self._buckets.setdefault(case.resolved.resolution.tags, _Buckets())
        found = self.found
        found.limited += 1
        if case.agrees(lambda now: self._answer(buckets.ours, case.resolved, now), buckets.slack_ms):
            found.agreeing += 1
            found.refused_by_both += not all(case.admitted)
        else:
            ours = self._answer(buckets.ours, case.resolved, case.observed.at)
            causes = self._causes(buckets, case)
            found.causes.update(causes)
            if len(found.shown) < _MAX_SHOWN:
                found.shown.append(_disagreement(case, ours, causes))
        self._charge(buckets, case)

    def _causes(self, buckets: _Buckets, case: _Case) -> list[str]:
        """Return why the cluster answered differently."""
        request, limit = case.resolved.request, case.kafka_limit
        if case.observed.assumed:
            return [ASSUMED]
        if case.resolved.resolution.exempt:
            return [KafkaDifference.EXEMPT.value]
        if request.client_id == NO_CLIENT_ID and limit != case.resolved.resolution.limit:
            return [KafkaDifference.NO_CLIENT_ID.value]
        return [UNEXPLAINED] if limit is None else self._causes_in(buckets, case, limit.quota)

    def _causes_in(self, buckets: _Buckets, case: _Case, quota: Quota) -> list[str]:
        """Return why the cluster answered differently with the same quota: its bucket has other tokens."""
        request, bucket = case.resolved.request, buckets.kafka
        now = case.observed.at + case.observed.took_ms
        if case.is_in_another_order(self._answer(buckets.ours, case.resolved, now)):
            return [KafkaDifference.ORDER.value]
        if case.agrees(lambda now: bucket.answer(request, quota, self._window, now), buckets.slack_ms):
            causes = bucket.causes | bucket.causes_of(request, quota, self._window, case.observed.at)
            if causes:
                return sorted(each.value for each in causes)
        if case.agrees(lambda now: KafkaBucket().answer(request, quota, self._window, now)):
            # Full buckets, as after a failover; but controllers do not fail over every few minutes.
            at, before = case.observed.at, buckets.filled_at
            buckets.ours, buckets.kafka, buckets.filled_at = None, KafkaBucket(), at
            is_failover = before is None or at - before > _FAILOVER_MS
            return [KafkaDifference.STATE.value if is_failover else OTHER_QUOTA]
        full = KafkaBucket().answer(request, quota, self._window, case.observed.at).admitted
        exceeds = any(theirs and not possible for theirs, possible in zip(case.admitted, full, strict=True))
        return [OTHER_QUOTA if exceeds else UNEXPLAINED]

    def _answer(self, bucket: Bucket | None, resolved: ResolvedRequest, now: int) -> KafkaAnswer:
        """Return our answer at `now` [epoch ms]."""
        record = msgspec.structs.replace(resolved.record, timestamp=now)
        _, admission = self._algorithm.admit(bucket, msgspec.structs.replace(resolved, record=record))
        tokens = math.inf if admission.tokens_before is None else admission.tokens_before
        return KafkaAnswer(list(admission.admitted), admission.controller_throttle_ms, tokens)

    def _charge(self, buckets: _Buckets, case: _Case) -> None:
        """Charge both buckets what the cluster has admitted."""
        resolved = case.resolved
        limit, now = resolved.resolution.limit, resolved.record.timestamp
        after, ours = self._algorithm.admit(buckets.ours, resolved)
        if limit is not None and not resolved.request.validate_only and list(ours.admitted) != case.admitted:
            after = Bucket(tokens_at(now, buckets.ours, limit, self._window) - case.cost, now, limit.quota)
        buckets.ours = after
        if ours.tokens_before is None or ours.tokens_before == ours.burst:
            buckets.slack_ms = 0
        buckets.slack_ms = max(buckets.slack_ms, case.observed.took_ms)
        if case.kafka_limit is not None:
            buckets.kafka.charge(resolved.request, case.cost, case.kafka_limit.quota, self._window, now)
        if limit is not None:
            buckets.kafka.compare(tokens_at(now, after, limit, self._window))

    def _kafka_limit(self, resolved: ResolvedRequest) -> Limit | None:
        """Return the limit that Kafka applies.

        No user is exempt, and no client-id quota applies to a client without a client-id.
        """
        request, at = resolved.request, resolved.record.timestamp
        resolution = resolved.resolution
        if resolution.exempt:
            resolution = self._quotas.resolve(request.user, request.client_id, at)
        entity = resolution.entity
        if request.client_id != NO_CLIENT_ID or entity is None or entity.client_id is msgspec.UNSET:
            return resolution.limit
        levels = self._quotas.timeline.levels(request.user, NO_CLIENT_ID, at)
        changes = (level.change for level in levels if level.entity.client_id is msgspec.UNSET)
        found = next((change for change in changes if change and change.quota), None)
        return Limit(found.quota, found.moment) if found and found.quota else None

    def _fill_unlimited(self, request: MutationRequest) -> None:
        """Fill the buckets of a request without a quota: Kafka does not remember what they held."""
        for tags in (Tags(request.user, request.client_id), Tags(request.user, ""), Tags("", request.client_id)):
            if tags in self._buckets:
                self._buckets[tags].kafka.fill(KafkaDifference.QUOTA_REMOVED)


def _disagreement(case: _Case, ours: KafkaAnswer, causes: list[str]) -> Disagreement:
    request, observed = case.resolved.request, case.observed
    return Disagreement(
        request.request_id,
        observed.at,
        request.user,
        request.client_id,
        request.operation.value,
        [topic.name for topic in request.topics],
        [topic.partitions for topic in request.topics],
        observed.error_codes,
        [0 if admit else 89 for admit in ours.admitted],
        observed.throttle_time_ms,
        ours.throttle_ms,
        causes,
    )
