"""The explanation of a decision: from its record alone, which has the bucket before it and all that it follows from."""

from typing import Self

import msgspec
from msgspec.structs import replace

from quota.admission.decide import decision_of
from quota.algorithms.token_bucket import Admission, charge, charge_request, debt_quota, gain, min_tokens, refill
from quota.records.decision import BucketBefore, Decision
from quota.records.levels import Limit, Resolution, ResolvedRequest
from quota.records.quota_log import Quota
from quota.records.record import BEGINNING, Record
from quota.records.request import Mode
from quota.timeline.change import ScheduledChange


class Gain(msgspec.Struct, frozen=True):
    """The tokens gained by one quota: `tokens` = min(`tokens_before` + seconds * `rate`, `burst`); times: epoch ms."""

    since: int
    until: int
    rate: float
    burst: float
    tokens_before: float
    tokens: float

    @property
    def late_ms(self) -> int:
        """The time by which a late request is before T, the time of the bucket; it gains nothing [ms]."""
        return max(self.since - self.until, 0)


class Charge(msgspec.Struct, frozen=True):
    """The effect of one topic on the bucket."""

    name: str
    partitions: int
    tokens_before: float
    tokens: float
    admitted: bool
    """Whether the quota admitted it, also where the quota is in shadow."""
    charged: bool
    """Whether it was charged: not if it was rejected, only validated, or charged before."""


class Recomputed(msgspec.Struct, frozen=True):
    """The decision computed again from the bucket before it, or from its request alone if it is unlimited."""

    tokens_before: float | None
    error_codes: list[int]
    tokens: float | None
    controller_throttle_ms: int
    differs: list[str]
    """The fields of the decision that were recorded with another value; none if the decision is reproduced."""

    @classmethod
    def of(cls, again: Decision, recorded: Decision) -> Self:
        """Return a decision that was computed again, and the fields in which it differs."""
        throttle, differs = again.verdict.controller_throttle_ms, again.differing_fields(recorded)
        return cls(again.tokens_before, again.error_codes, again.tokens, throttle, differs)


class Explanation(msgspec.Struct, frozen=True):
    """The explanation of a decision; of an unlimited one, which has no bucket, only that it is reproduced."""

    decision: Decision
    gains: list[Gain] = []
    """The tokens that the bucket gained from T until the request: none if it was full."""
    charges: list[Charge] = []
    """None for a withdrawal, which gives back."""
    purgatory_ms: int = 0
    """The minimum time subtracted from the bucket's throttle time, because the broker held the request in purgatory
    [ms]."""
    recomputed: Recomputed | None = None
    """Null for a record of an older program, which did not record the bucket before a decision."""
    metadata_at: int | None = None
    """The time of the cluster's metadata that the callback had, epoch ms; null if it had none, or there is none."""
    unrecorded_after: int = 0
    """The topics that a gateway has rejected without a decision since this one, as the client's next decision reports;
    only with `--last`."""
    last_hour: dict[str, int] = {}
    """The mutations that the bucket was charged in the last hour until now, the most first: by the client-ids of a
    user's bucket, and by the users of others."""
    scheduled: list[ScheduledChange] = []
    """The scheduled changes of the quotas that may apply to the client, of the callback, and resets of its bucket."""


def explain(decision: Decision) -> Explanation:
    """Explain a decision."""
    quota, held, before = decision.applied_quota, decision.tokens_before, decision.bucket_before
    if quota is None or held is None:
        return Explanation(decision, recomputed=None if quota else Recomputed.of(_admit_again(decision), decision))
    stored = held if before is None or before.updated_at is None else before.tokens
    of_debt = quota if before is None else debt_quota(before, decision.timestamp, quota)
    charges = _charges(decision, of_debt, held, stored)
    if before is None:
        return Explanation(decision, [], charges, decision.purgatory_ms)
    recomputed = Recomputed.of(_admit_again(decision, quota, before), decision)
    return Explanation(decision, _gains(decision, quota, before), charges, decision.purgatory_ms, recomputed)


def _admit_again(decision: Decision, quota: Quota | None = None, before: BucketBefore | None = None) -> Decision:
    request = decision.request
    if quota is None or before is None:
        limit, admission = None, Admission([True] * len(request.topics))
    else:
        limit, now, burst = Limit(quota, BEGINNING), decision.timestamp, quota.burst or before.burst
        if before.changed_at is None and not before.late_ms(now):  # then the bucket had the decision's quota
            before = replace(before, quota=quota.rate, burst=burst, max_debt_ms=quota.max_debt_ms)
        admission = charge_request(before, request, now, quota, burst, decision.repeats, decision.withdraws)
    resolution = Resolution(
        decision.tags,
        limit,
        decision.quota_entity,
        shadow=decision.shadow is not None,
        exempt=decision.exempt,
        callback=decision.callback,
    )
    record = Record(decision.source, decision.timestamp, None)
    return decision_of(ResolvedRequest(record, request, resolution), admission)


def _gains(decision: Decision, quota: Quota, before: BucketBefore) -> list[Gain]:
    """Return the gain by the quota last used until the present one took effect, and by that one from then on."""
    now, since, held, burst = decision.timestamp, before.updated_at, before.tokens, quota.burst or before.burst
    if since is None:
        return []
    tokens = refill(before, now, quota, burst)
    if before.late_ms(now):
        return [Gain(since, now, before.quota, before.burst, held, tokens)]
    since, gains = since if before.set_back_to is None else before.set_back_to, []
    if before.changed_at is not None:
        gained = gain(held, before.quota, before.changed_at - since, before.burst)
        gains.append(Gain(since, before.changed_at, before.quota, before.burst, held, gained))
        since, held = before.changed_at, max(gained, min_tokens(quota))
    return [*gains, Gain(since, now, quota.rate, burst, held, tokens)]


def _charges(decision: Decision, quota: Quota, tokens: float, stored: float) -> list[Charge]:
    charges = []
    for number, topic in enumerate([] if decision.withdraws else decision.request.topics):
        admitted = decision.validate_only or topic.partitions <= quota.topic_limit
        charged, before = number >= decision.free_topics, tokens
        if charged:
            (admitted,), tokens = charge(tokens, stored, [topic], quota, strict=decision.mode is Mode.STRICT)
        charges.append(Charge(topic.name, topic.partitions, before, tokens, admitted, charged and admitted))
    return charges
