"""The service that copies the quota log to a cluster whose brokers enforce the quotas."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from prometheus_client.metrics_core import Metric as Family

from jobs.metrics.endpoint import ServiceEndpoint
from jobs.metrics.families import family
from jobs.metrics.loops import LoopHealth, LoopMetrics, counted
from jobs.query_names import PUSH
from jobs.signals import stop_signals
from quota.kafka.brokers.cluster_quotas import ClusterQuotas, UnsetQuotas
from quota.kafka.quotas.log import KafkaQuotas, QuotaLog
from quota.kafka.timing import Backoff, Every, LoopStats, now_ms
from quota.planning.cluster import KINDS, RateDifference, Wanted, differences, wanted_rates
from quota.planning.plan import Step
from quota.records.entity import QuotaEntity
from quota.settings import Settings

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class PushStats(LoopStats):
    """The counts of `quotas push --follow`."""

    pushed: int = 0
    """Quotas set or removed on the cluster because the log had changed."""
    repaired: int = 0
    """Quotas set or removed on the cluster because somebody had changed them there."""
    differing: Mapping[str, int] = field(default_factory=dict)
    """Quotas that differ, by the kind of difference, as of the last comparison."""
    compared_at: float | None = None
    """The end of the last comparison [s since the epoch]."""

    def __str__(self) -> str:
        return f"quotas: {self.pushed} pushed, {self.repaired} repaired, {sum(self.differing.values())} differ"

    def compare(self, differences: Iterable[RateDifference], now: float) -> None:
        """Record the differences that a comparison found, at `now` [s since the epoch]."""
        self.differing = Counter(difference.kind for difference in differences)
        self.compared_at = now


class Repair(Enum):
    """The changes on the cluster that are reverted."""

    NONE = "none"
    KNOWN = "known"
    """Revert changes to quotas that are, or were, in the log."""
    ALL = "all"
    """Also revert quotas that were never in the log."""


_TICK_SECONDS = 1.0
_COMPARE_SECONDS = 30.0
_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 2.0, 600.0
"""The pauses before a quota that the cluster has rejected is pushed again: the first and the longest one [s]."""
_MAX_LOGGED = 20


def run_push(settings: Settings, cluster: ClusterQuotas, first: Callable[[], Wanted], repair: Repair) -> None:
    """Push all quotas of the log, and then its changes, until stopped."""
    stats = PushStats()
    health = LoopHealth(
        stats, lambda: "" if stats.compared_at is not None else "it has not compared the cluster with the quota log yet"
    )
    with ServiceEndpoint(settings.metrics, PUSH) as endpoint:
        follower = QuotaPusher(settings, cluster, first(), stats, repair)
        metrics = LoopMetrics(PUSH, lambda: push_families(stats))
        with stop_signals() as stop, counted(endpoint, settings, stats, metrics, health):
            _log.info("running: push, to %s", cluster.connection)
            follower.run(stop)


@dataclass(slots=True)
class _Rejection:
    """The last push of a quota, which the cluster has rejected."""

    wanted: float | None
    pauses: Backoff
    until: float = 0.0
    """When it may be pushed again [epoch ms]."""


class QuotaPusher:
    """Follows the quota log and a cluster, and pushes the changes of the log to the cluster."""

    def __init__(
        self, settings: Settings, cluster: ClusterQuotas, pushed: Wanted, stats: PushStats, repair: Repair
    ) -> None:
        self._cluster = cluster
        self._pushed = pushed
        self._stats = stats
        self._repair = repair
        self._log = QuotaLog(KafkaQuotas.from_settings(settings, settings.kafka.timeout_seconds))
        self._compared_position = -1
        self._next_moment: float = 0
        self._compare = Every(_COMPARE_SECONDS)
        self._logged: frozenset[RateDifference] = frozenset()
        self._repairs_of: Counter[QuotaEntity] = Counter()
        self._rejections: dict[QuotaEntity, _Rejection] = {}

    def run(self, stop: threading.Event) -> None:
        """Follow both until `stop` is set."""
        while not stop.is_set():
            self._stats.looped_at = time.monotonic()
            self._compare_if_due()
            stop.wait(_TICK_SECONDS)

    def _compare_if_due(self) -> None:
        """Read the log, and compare if it has new records, a change takes effect, or the interval has passed."""
        log = self._log
        log.read_to_end()
        if self._compare.is_due() or log.position != self._compared_position or now_ms() >= self._next_moment:
            now = log.now
            self._compare_with(wanted_rates(log.timeline, now))
            scheduled = (change.moment for change in log.timeline.scheduled(now))
            again = (rejection.until for rejection in self._rejections.values())
            self._next_moment = min((*scheduled, *again), default=float("inf"))
            self._compared_position = log.position

    def _compare_with(self, wanted: Wanted) -> None:
        """Compare the cluster with the log, and push the log's changes since the last time.

        A quota that the cluster rejects is pushed again by itself, after a pause; all others are done.
        """
        differing = differences(wanted, self._cluster.read())
        self._stats.compare(differing, time.time())
        entities = {difference.entity for difference in differing}
        self._rejections = {entity: held for entity, held in self._rejections.items() if entity in entities}
        unpushed = [difference for difference in differing if self._is_due(difference)]
        drift = [difference for difference in differing if difference not in unpushed]
        due = [difference for difference in unpushed if not self._is_waiting(difference)]
        repaired = [each for each in drift if self._repairs(each) and not self._is_waiting(each)]
        self._log_drift(drift)
        rejected = self._push([*due, *repaired])
        due, repaired = ([each for each in each_kind if each.entity not in rejected] for each_kind in (due, repaired))
        if due or repaired:
            self._stats.pushed += len(due)
            self._stats.repaired += len(repaired)
            left = [difference for difference in drift if difference not in repaired]
            self._logged = frozenset(left)
            self._stats.compare([each for each in differing if each not in (*due, *repaired)], time.time())
            _log_each("pushed: %s", [difference.step for difference in due], logging.INFO)
            self._repairs_of.update(difference.entity for difference in repaired)
            again = [difference.step for difference in repaired if self._repairs_of[difference.entity] > 1]
            first = [difference.step for difference in repaired if self._repairs_of[difference.entity] == 1]
            _log_each("repaired: %s", first, logging.INFO)
            _log_each("repaired again, since another program changes it, too: %s", again, logging.WARNING)
        not_done = {difference.entity for difference in unpushed} - {difference.entity for difference in due}
        done = {entity: rate for entity, rate in wanted.items() if entity not in not_done}
        self._pushed = done | {entity: rate for entity, rate in self._pushed.items() if entity in not_done}

    def _push(self, changes: Sequence[RateDifference]) -> Mapping[QuotaEntity, str]:
        """Push changes; return the cluster's reasons for those that it rejects, which wait longer each time."""
        rejected: Mapping[QuotaEntity, str] = {}
        if changes:
            try:
                self._cluster.push({change.entity: change.wanted for change in changes})
            except UnsetQuotas as error:
                rejected = error.rejected
                _log.warning("%s", error)
        for change in changes:
            rejection = self._rejections.pop(change.entity, None)
            if change.entity in rejected:
                if rejection is None or rejection.wanted != change.wanted:
                    rejection = _Rejection(change.wanted, Backoff(_RETRY_SECONDS, _LONGEST_RETRY_SECONDS))
                rejection.until = now_ms() + 1000 * rejection.pauses.next()
                self._rejections[change.entity] = rejection
        return rejected

    def _is_waiting(self, difference: RateDifference) -> bool:
        """Return whether the cluster has just rejected what the log has."""
        rejection = self._rejections.get(difference.entity)
        return rejection is not None and rejection.wanted == difference.wanted and now_ms() < rejection.until

    def _is_due(self, difference: RateDifference) -> bool:
        """Return whether the log has changed the entity since it was last pushed."""
        entity = difference.entity
        is_known = difference.kind != "only_there"
        return is_known and (entity not in self._pushed or self._pushed[entity] != difference.wanted)

    def _repairs(self, difference: RateDifference) -> bool:
        return self._repair is Repair.ALL or (self._repair is Repair.KNOWN and difference.kind != "only_there")

    def _log_drift(self, drift: Sequence[RateDifference]) -> None:
        _log_each(
            "changed on the cluster, and not in the log: %s",
            [difference.drift for difference in drift if difference not in self._logged],
            logging.WARNING,
        )
        if self._logged and not drift:
            _log.info("the cluster matches the log again")
        self._logged = frozenset(drift)


def _log_each(message: str, steps: Sequence[Step], level: int) -> None:
    for step in steps[:_MAX_LOGGED]:
        _log.log(level, message, step)
    if len(steps) > _MAX_LOGGED:
        _log.log(level, message, f"and {len(steps) - _MAX_LOGGED} more")


def push_families(stats: PushStats) -> Iterator[Family]:
    """Yield the metrics of a service that pushes quotas; none before its first comparison."""
    if stats.compared_at is not None:
        yield family("mutation_quota_push_differing_quotas", {kind: stats.differing.get(kind, 0) for kind in KINDS})
        yield family("mutation_quota_push_repaired_total", stats.repaired)
        yield family("mutation_quota_push_last_comparison_timestamp_seconds", stats.compared_at)
