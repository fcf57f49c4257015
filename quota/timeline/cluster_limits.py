"""The parts of a quota log that brokers cannot enforce; they are reported before anything is pushed."""

import math
from collections.abc import Collection, Iterator

import msgspec
from msgspec import UNSET

from quota.records.callback import CallbackSetting
from quota.records.entity import QuotaEntity
from quota.records.quota import RATE_CONFIG, Quota, Window
from quota.records.request import NO_CLIENT_ID
from quota.text import format_time, printable, quoted
from quota.timeline.cluster_plan import Rates, Wanted, has_names, is_rate, wanted_rates
from quota.timeline.levels import levels, unused_name
from quota.timeline.timeline import QuotaTimeline
from quota.timeline.warnings import quota_warnings

MAX_THROTTLE_MS = 2**31 - 1
"""The longest throttle time that Kafka's protocol carries; brokers report a wrong value for a longer one."""


class Note(msgspec.Struct, frozen=True):
    """A difference between the enforcement of a quota here and on the cluster."""

    kind: str
    """`burst`, `max_debt_ms`, `shadow`, `scheduled`, `no_client_id`, `rate`, `callback`, `exempt_user` or `window`."""
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
        new = "is removed" if change.quota is None else f"becomes {change.quota}"
        yield Note("scheduled", f"{new} from {format_time(change.moment)} on, and not before", change.entity)


def rate_warnings(rates: Rates) -> list[str]:
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
