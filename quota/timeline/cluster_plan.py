"""Plans between the quota log and a cluster whose brokers enforce quotas; brokers have only rates."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from msgspec.structs import replace

from quota.records.entity import QuotaEntity
from quota.records.quota import RATE_CONFIG, Quota
from quota.records.quota_log import QuotaRecord
from quota.timeline.change import quota_record
from quota.timeline.plan import Step
from quota.timeline.timeline import QuotaTimeline

Rates: TypeAlias = Mapping[QuotaEntity, float]
"""The rates of a cluster [mutations/s], by entity."""

Wanted: TypeAlias = Mapping[QuotaEntity, float | None]
"""The rates that a cluster should have according to the log, by entity; None for a removed rate."""

Kind: TypeAlias = Literal["changed", "missing", "not_removed", "only_there"]

KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class RateDifference:
    """An entity whose rate on the cluster differs from that of the log."""

    entity: QuotaEntity
    kind: Kind
    """`changed`: it has a different rate; `missing`: it has none; `not_removed`: it has one, but none in the log;
    `only_there`: the log never had one."""
    wanted: float | None
    present: float | None

    @property
    def step(self) -> Step:
        """The step that sets the cluster's rate to that of the log."""
        return _step(self.entity, self.present, self.wanted)

    @property
    def drift(self) -> Step:
        """The step from the log's rate to that of the cluster."""
        return _step(self.entity, self.wanted, self.present)


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
    compared = (
        RateDifference(entity, _kind(entity, wanted, present), wanted.get(entity), present.get(entity))
        for entity in entities
    )
    return [difference for difference in compared if difference.wanted != difference.present]


def pull_steps(present: Rates, timeline: QuotaTimeline, at: int) -> Iterator[Step]:
    """Yield the steps that set the quotas of the log to those of a cluster, from `at` (epoch ms) on.

    Options that brokers do not have (burst, bound on debt) are kept, even if the rate changes; a quota that the brokers
    enforce leaves shadow. Scheduled changes stay, and so do quotas of entities whose rate on the cluster is invalid.
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
            after = Quota(difference.present, before.burst, before.max_debt_ms)
            changed = [RATE_CONFIG, "shadow"] if before.shadow else [RATE_CONFIG]
            yield Step(replace(quota_record(entity, after), altered_configs=changed), before, after)


def is_rate(rate: float) -> bool:
    """Return whether a rate is valid in the log.

    Kafka also accepts NaN and infinity, which admit everything; a cluster may have 0 or less from elsewhere.
    """
    return math.isfinite(rate) and rate > 0


def _step(entity: QuotaEntity, before: float | None, after: float | None) -> Step:
    old, new = (None if rate is None else Quota(rate) for rate in (before, after))
    return Step(quota_record(entity, new), old, new)


def _kind(entity: QuotaEntity, wanted: Wanted, present: Rates) -> Kind:
    if entity not in wanted:
        return "only_there"
    if wanted[entity] is None:
        return "not_removed"
    return "changed" if entity in present else "missing"
