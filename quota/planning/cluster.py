"""The quotas of a cluster whose brokers enforce: how they differ from the log, and what brokers cannot enforce.

Brokers have only rates.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from quota.algorithms.token_bucket import MAX_THROTTLE_MS
from quota.planning.plan import Step
from quota.planning.warnings import quota_warnings
from quota.records.entity import QuotaEntity
from quota.records.levels import levels, unused_name
from quota.records.quota_log import RATE_CONFIG, CallbackSetting, Quota, QuotaRecord, Window
from quota.records.request import NO_CLIENT_ID
from quota.text import printable, quoted
from quota.timeline.timeline import QuotaTimeline

Rates: TypeAlias = Mapping[QuotaEntity, float]
"""The rates of a cluster [mutations/s], by entity."""

Wanted: TypeAlias = Mapping[QuotaEntity, float | None]
"""The rates that a cluster should have according to the log, by entity; None for a removed rate."""

Kind: TypeAlias = Literal["changed", "missing", "not_removed", "only_there"]

KINDS: tuple[Kind, ...] = get_args(Kind)


class RateDifference(msgspec.Struct, frozen=True):
    """An entity whose rate on the cluster is not that of the log."""

    entity: QuotaEntity
    before: Quota | None
    """The rate in the log; null for none."""
    after: Quota | None
    """The rate on the cluster; null for none."""
    kind: Kind = msgspec.field(name="difference")
    """`changed`: it has a different rate; `missing`: it has none; `not_removed`: it has one, but none in the log;
    `only_there`: the log never had one."""

    @property
    def wanted(self) -> float | None:
        """The rate in the log [mutations/s]; None for none."""
        return None if self.before is None else self.before.rate

    @property
    def present(self) -> float | None:
        """The rate on the cluster [mutations/s]; None for none."""
        return None if self.after is None else self.after.rate

    @property
    def step(self) -> Step:
        """The step that sets the cluster's rate to that of the log."""
        return Step(QuotaRecord.of(self.entity, self.before), self.after, self.before)

    @property
    def drift(self) -> Step:
        """The step from the log's rate to that of the cluster."""
        return Step(QuotaRecord.of(self.entity, self.after), self.before, self.after)


def wanted_rates(timeline: QuotaTimeline, at: int) -> dict[QuotaEntity, float | None]:
    """Return the rates that a cluster should have as of `at` (epoch ms), in a stable order.

    Entities whose quota was removed have None, and so have those in shadow, whose quota is not to be enforced. Entities
    that the log does not have yet are left out.
    """
    return {
        change.entity: None if change.quota is None or change.quota.shadow else change.quota.rate
        for change in timeline.known(at)
    }


def has_names(entity: QuotaEntity) -> bool:
    """Return whether no name is empty; brokers may have such names from ZooKeeper, and do not set or remove them."""
    return "" not in entity.names.values()


def differences(wanted: Wanted, present: Rates) -> list[RateDifference]:
    """Return the differences between a cluster and the log, in a stable order; empty names are left out."""
    entities = sorted({*wanted, *filter(has_names, present)}, key=lambda entity: entity.key)
    return [
        RateDifference(entity, _quota(wanted.get(entity)), _quota(present.get(entity)), _kind(entity, wanted, present))
        for entity in entities
        if wanted.get(entity) != present.get(entity)
    ]


def pull_steps(present: Rates, timeline: QuotaTimeline, at: int) -> Iterator[Step]:
    """Yield the steps that set the quotas of the log to those of a cluster, from `at` (epoch ms) on.

    Options that brokers do not have (burst, bound on debt, limit of a topic) are kept, even if the rate changes; a
    quota that the brokers enforce leaves shadow. Scheduled changes stay, and so do quotas of entities whose rate on the
    cluster is invalid.
    """
    wanted, own = wanted_rates(timeline, at), {change.entity: change.quota for change in timeline.known(at)}
    for difference in differences(wanted, present):
        entity, before = difference.entity, own.get(difference.entity)
        if difference.present is not None and not is_rate(difference.present):
            continue
        if difference.present is None:
            yield Step(QuotaRecord(entity, None), before, None)
        elif before is None:
            yield Step(QuotaRecord(entity, difference.present), None, Quota(difference.present))
        else:
            after = replace(before, rate=difference.present, shadow=False)
            changed = [RATE_CONFIG, "shadow"] if before.shadow else [RATE_CONFIG]
            yield Step(replace(QuotaRecord.of(entity, after), altered_configs=changed), before, after)


def is_rate(rate: float) -> bool:
    """Return whether a rate is valid in the log.

    Kafka also accepts NaN and infinity, which admit everything; a cluster may have 0 or less from elsewhere.
    """
    return math.isfinite(rate) and rate > 0


def _quota(rate: float | None) -> Quota | None:
    return None if rate is None else Quota(rate)


def _kind(entity: QuotaEntity, wanted: Wanted, present: Rates) -> Kind:
    if entity not in wanted:
        return "only_there"
    if wanted[entity] is None:
        return "not_removed"
    return "changed" if entity in present else "missing"


class Note(msgspec.Struct, frozen=True):
    """A difference between the enforcement of a quota here and on the cluster."""

    kind: str
    """`burst`, `max_debt_ms`, `max_request_mutations`, `shadow`, `scheduled`, `no_client_id`, `rate`, `callback`,
    `exempt_user` or `window`."""
    message: str
    """The difference in a sentence."""
    entity: QuotaEntity | None = None
    """The entity concerned; null for all."""

    def __str__(self) -> str:
        return self.message if self.entity is None else f"{self.entity}: {self.message}"


def quota_notes(timeline: QuotaTimeline, at: int, brokers: Window) -> Iterator[Note]:
    """Yield the differences of single quotas as of `at` (epoch ms), in a stable order."""
    wanted = wanted_rates(timeline, at)
    unnamed = unused_name(wanted)
    for change in timeline.configured(at):
        if change.quota is not None and change.quota.shadow:
            wider = _wider(change.entity, wanted, unnamed)
            instead = f"; the quota of {wider} applies there instead" if wider else ""
            yield Note(
                "shadow", f"is in shadow, and not pushed, since brokers would enforce it{instead}", change.entity
            )
        elif change.quota is not None:
            for kind, message in _quota_notes(change.entity, change.quota, brokers):
                yield Note(kind, message, change.entity)
    for change in timeline.scheduled(at):
        yield Note("scheduled", f"{change}, and not before", change.entity)


def cluster_warnings(rates: Rates) -> list[str]:
    """Return the warnings of a cluster's own rates, in a stable order: what is left out, and what names nobody."""
    warnings = []
    for entity in sorted(rates, key=lambda entity: entity.key):
        rate = f"{RATE_CONFIG}={rates[entity]} on the cluster"
        if not has_names(entity):
            warnings.append(f"{entity}: left out: {rate} applies to nobody, since a name is empty")
            continue
        warnings += quota_warnings([entity], (), of=())
        if not is_rate(rates[entity]):
            effect = "admits nothing after the first request" if rates[entity] <= 0 else "admits everything"
            warnings.append(f"{entity}: skipped: {rate} {effect}, and is not a valid quota here")
    return warnings


def exemption_notes(exempt: Collection[str], wanted: Wanted) -> Iterator[Note]:
    """Yield the exempt users to whom a quota applies on the cluster."""
    unnamed = unused_name(wanted)
    for user in sorted(set(exempt)):
        any_client = (entity for entity, rate in wanted.items() if rate is not None and entity.user in {user, UNSET})
        holding = _first(levels(user, unnamed), wanted) or next(any_client, None)
        if holding is not None:
            yield Note(
                "exempt_user",
                f"user {quoted(user)} is exempt here (quota.exempt_users); brokers apply the quota of {holding} to it",
            )


def callback_note(setting: CallbackSetting) -> Iterator[Note]:
    """Yield a note if the jobs use another callback than the default one."""
    if not setting.is_default:
        yield Note(
            "callback",
            f"the callback {printable(setting.class_name)} determines here who shares a quota, and how large it is; "
            "brokers take the most specific quota of Kafka's eight levels",
        )


def window_note(own: Window, brokers: Window) -> Iterator[Note]:
    """Yield a note if the brokers have another window, and therefore other bursts."""
    if own.total_ms != brokers.total_ms:
        yield Note(
            "window",
            f"the brokers' window is {brokers.num} x {brokers.size_seconds} s (controller.quota.window.num and "
            f"size.seconds), here it is {own.num} x {own.size_seconds} s (quota.window_num and window_size_seconds): "
            f"bursts are {brokers.burst(1.0):g} s of a quota there, and {own.burst(1.0):g} s here",
        )


def _quota_notes(entity: QuotaEntity, quota: Quota, brokers: Window) -> Iterator[tuple[str, str]]:
    if quota.burst is not None:
        given = brokers.burst(quota.rate)
        yield "burst", f"has a burst of {quota.burst:g} here, and of {given:g} there, which follows from the rate"
    if quota.max_debt_ms is not None:
        yield "max_debt_ms", f"has debts of {quota.max_debt_ms} ms at most here, and of any length there"
    if quota.max_request_mutations is not None:
        yield "max_request_mutations", f"limits a topic to {quota.max_request_mutations} mutations here, and not there"
    if 1000 / quota.rate > MAX_THROTTLE_MS:
        yield "rate", "is so small that the throttle time of one mutation exceeds the maximum of Kafka's protocol"
    if math.isinf(quota.rate * brokers.num * brokers.size_seconds):
        yield "rate", "is so large that the burst is infinite there, and everything is admitted"
    if entity.client_id == NO_CLIENT_ID:
        yield "no_client_id", "means clients without a client-id here; on brokers, no client-id quota applies to them"


def _wider(entity: QuotaEntity, wanted: Wanted, unnamed: str) -> QuotaEntity | None:
    """Return the entity whose rate applies if this entity has none."""
    user = entity.user if isinstance(entity.user, str) else unnamed
    client_id = entity.client_id if isinstance(entity.client_id, str) else unnamed
    candidates = levels(user, client_id)
    place = next(index for index, (candidate, _) in enumerate(candidates) if candidate == entity)
    return _first(candidates[place + 1 :], wanted)


def _first(candidates: Collection[tuple[QuotaEntity, object]], wanted: Wanted) -> QuotaEntity | None:
    return next((entity for entity, _ in candidates if wanted.get(entity) is not None), None)
