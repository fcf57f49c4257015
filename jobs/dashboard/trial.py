"""Tries a quota: replays the requests of the last hour as if it had been in force, and names the command to set it."""

import shlex
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from functools import partial

import msgspec
from msgspec.structs import replace

from quota.admission.policy import Policy
from quota.algorithms.token_bucket import Bucket, TokenBucket
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadRecord
from quota.records.decision import Decision, read_decision
from quota.records.entity import QuotaEntity
from quota.records.levels import Resolution
from quota.records.quota_log import BURST_CONFIG, RATE_CONFIG, Quota, QuotaLogEntry, Window
from quota.records.record import BEGINNING, Positive
from quota.settings import Settings
from quota.text import legible
from quota.timeline.change import QuotaCancellation, QuotaChange, to_change
from quota.whatif.effects import EffectCounts, Sender, Totals
from quota.whatif.evaluation import Candidate, evaluate

_MAX_SENDERS = 20


class Trial(msgspec.Struct, frozen=True):
    """The effect that a quota would have had on its requests."""

    since: int | None
    """The time of the oldest request [epoch ms]; None without requests."""
    requests: int
    """The number of all requests, including those that the quota does not affect."""
    recorded: Totals
    """The actual decisions on the affected requests."""
    tried: Totals
    """The decisions with the quota."""
    senders: list[Sender]
    """The senders with the most mutations, with the decisions that the quota leads to."""


class WantedQuota(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The wanted quota of an entity; its other options stay unchanged."""

    entity: QuotaEntity
    controller_mutation_rate: Positive | None
    """The rate in mutations/s; None for no quota."""
    controller_mutation_burst: Positive | None = None
    """The burst in mutations; None for the burst that follows from the rate."""

    def applied_to(self, present: Quota | None) -> Quota | None:
        """Return the quota that results from the current one."""
        rate = self.controller_mutation_rate
        if rate is None:
            return None
        return replace(present or Quota(rate), rate=rate, burst=self.controller_mutation_burst)

    def command(self, present: Quota | None) -> str | None:
        """Return the command that changes the current quota to this one; None if there is no quota to remove."""
        rate, burst = self.controller_mutation_rate, self.controller_mutation_burst
        words = ["mutation-quota", "quotas", "alter", *self.entity.options]
        if rate is None:
            return shlex.join([*words, "--delete-config", RATE_CONFIG]) if present else None
        added = f"{RATE_CONFIG}={rate}" if burst is None else f"{RATE_CONFIG}={rate},{BURST_CONFIG}={burst}"
        words += ["--add-config", added]
        if burst is None and present and present.burst is not None:
            words += ["--delete-config", BURST_CONFIG]
        return shlex.join(words)


def try_quota(
    records: Sequence[bytes],
    entries: Iterable[QuotaLogEntry],
    settings: Settings,
    entity: QuotaEntity,
    quota: Quota | None,
) -> Trial:
    """Replay requests as if an entity had had a different quota all the time.

    A bucket starts with the tokens before its first decision. Requests to which a different quota applies, with or
    without the change, are skipped, because nothing changes for them. The requests themselves are not changed, although
    clients that are rejected more or less often might have sent different ones.
    """
    quotas = _with_quota(entries, settings, entity, quota)
    window, policy = settings.quota.window, Policy.of(settings)
    algorithm = TokenBucket(window, policy.deduplication)
    candidate = Candidate("tried", quotas, algorithm, policy, first_state=partial(_first_state, window))

    def is_affected(decision: Decision) -> bool:
        with suppress(BadRecord):  # a callback fails
            return entity in (candidate.resolve(decision).entity, decision.quota_entity)
        return False

    with closing(quotas):
        decisions = filter(is_affected, map(read_decision, records))
        nothing = EffectCounts().result("none")
        recorded, tried = evaluate(decisions, [candidate], "recorded").outcomes or (nothing, nothing)
    senders = [
        Sender(legible(sender.user), legible(sender.client_id), sender.load) for sender in tried.senders[:_MAX_SENDERS]
    ]
    first = read_decision(records[0]).timestamp if records else None
    return Trial(first, len(records), recorded.load, tried.load, senders)


def _with_quota(
    entries: Iterable[QuotaLogEntry], settings: Settings, entity: QuotaEntity, quota: Quota | None
) -> CallbackTimeline:
    """Return the quotas of the log, with this quota for one entity from the beginning."""
    quotas = CallbackTimeline(settings.quota.callbacks)
    for entry in entries:
        change = to_change(entry.record, entry.timestamp)
        if not (isinstance(change, QuotaChange | QuotaCancellation) and change.entity == entity):
            quotas.add(change)
    quotas.add(QuotaChange(entity, quota, BEGINNING))
    return quotas


def _first_state(window: Window, recorded: Decision, resolution: Resolution) -> Bucket | None:
    """Return the bucket before its first request, with the recorded tokens; None if it differs or was full."""
    quota, tokens = recorded.applied_quota, recorded.tokens_before
    if recorded.tags != resolution.tags or quota is None or tokens is None:
        return None
    return None if tokens >= window.burst(quota.rate, quota.burst) else Bucket(tokens, recorded.timestamp, quota)
