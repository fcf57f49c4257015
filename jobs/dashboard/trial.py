"""Tries a quota: replays the requests of the last hour as if it had been in force, and names the command to set it."""

import shlex
from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from quota.admission.decide import decide
from quota.admission.policy import Policy
from quota.algorithms.token_bucket import Bucket, TokenBucket
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadRecord
from quota.records.decision import Decision, read_decision
from quota.records.entity import QuotaEntity, Tags
from quota.records.levels import Resolution
from quota.records.quota_log import BURST_CONFIG, RATE_CONFIG, Quota, QuotaLogEntry, Window
from quota.records.record import BEGINNING, Positive
from quota.settings import Settings
from quota.text import legible
from quota.timeline.change import QuotaCancellation, QuotaChange, to_change
from quota.whatif.effects import Effect, EffectCounts, Sender, Totals
from quota.whatif.evaluation import resolve_again, resolved_to

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
    algorithm = TokenBucket(settings.quota.window, Policy.of(settings).deduplication)
    states: dict[Tags, Bucket | None] = {}
    recorded_effects, effects = EffectCounts(), EffectCounts()
    first = None
    for record in records:
        decision = read_decision(record)
        first = decision.timestamp if first is None else first
        resolution = _resolve(decision, quotas, Policy.of(settings))
        if resolution is None or entity not in (resolution.entity, decision.quota_entity):
            continue
        tags = resolution.tags
        state = states[tags] if tags in states else _first_state(decision.tags == tags, decision, settings.quota.window)
        states[tags], again = decide(state, resolved_to(decision, resolution), algorithm)
        recorded_effects.add(Effect.of(decision, decision))
        effects.add(Effect.of(again, decision))
    quotas.close()
    recorded, tried = recorded_effects.result("recorded"), effects.result("tried")
    senders = [
        Sender(legible(sender.user), legible(sender.client_id), sender.load) for sender in tried.senders[:_MAX_SENDERS]
    ]
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


def _resolve(recorded: Decision, quotas: CallbackTimeline, policy: Policy) -> Resolution | None:
    """Return the quota of a request, enforced even if it is in shadow; None if a callback fails."""
    try:
        return resolve_again(recorded, quotas, policy)._replace(shadow=False)
    except BadRecord:
        return None


def _first_state(same_bucket: bool, recorded: Decision, window: Window) -> Bucket | None:  # noqa: FBT001
    """Return the bucket before its first request, with the recorded tokens; None if it differs or was full."""
    quota, tokens = recorded.applied_quota, recorded.tokens_before
    if not same_bucket or quota is None or tokens is None or tokens >= window.burst(quota.rate, quota.burst):
        return None
    return Bucket(tokens, recorded.timestamp, quota)
