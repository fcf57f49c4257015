"""One arm of the experiment: a cluster, the enforcing job, two tenants, and the storm."""

import enum
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.status import Status

from jobs.enforce.query import start_enforce
from jobs.sandbox.gateway import embedded_gateway
from jobs.services.session import deployment_session
from jobs.spark.installation import jars_folder
from jobs.spark.queries import check_queries, stop_after_batch
from quota.errors import MutationQuotaError
from quota.kafka.quotas.writer import write_record
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.records.request import ANONYMOUS
from quota.settings import Settings
from tests.evidence.experiment.figures import (
    REST_SECONDS,
    Arm,
    Create,
    Phase,
    Settled,
    back_to_normal,
    between,
    done,
    last_answer,
)
from tests.evidence.experiment.java_admin import JavaStorm, java_admin
from tests.evidence.experiment.place import cluster, deciding_client, deployment, plain_client, portions
from tests.evidence.experiment.storm import (
    EVERY_SECONDS,
    PARTITIONS,
    PER_REQUEST,
    REQUESTS_PER_SECOND,
    ClientStorm,
    Clock,
    Storm,
    Tenant,
)

DIRECT, DECIDED = "direct", "decided"
"""The tenants: one calls the cluster directly, the other requests a decision first and has no quota."""

STORM_USER = "storm"

_POLL_SECONDS = 0.1
_NOTIFY_SECONDS = 0.5
_FIRST_BATCH_SECONDS = 90.0
_CATCH_UP_SECONDS = 180.0
_GRACE_SECONDS = 30.0
_WARM_TOPICS = 100


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of all arms; times in seconds."""

    embedded: bool
    factor: int
    topics: int
    limit: float
    """Time limit of the creation, and of the deletion; topics not admitted by then are refused."""
    warm_up: float
    baseline: float
    least: float
    """Shortest time for which a phase is measured."""

    @property
    def mutations(self) -> int:
        """Mutations of the creation."""
        return self.topics * PARTITIONS

    def sentence(self) -> str:
        """Return a sentence about the storm."""
        scaled = f", scaled down by {self.factor}" if self.factor > 1 else ""
        return (
            f"{self.topics:,} topics of {PARTITIONS} partitions in requests of {PER_REQUEST} topics, "
            f"{REQUESTS_PER_SECOND} requests a second{scaled}; then all of them deleted in one request."
        )


@dataclass(frozen=True, slots=True)
class StormQuota:
    """The quota of the storm: rate (mutations/s) and burst; a burst of None is that of the settings' window."""

    rate: float
    burst: float | None

    def words(self, settings: Settings) -> str:
        """Return the quota in words."""
        at_once = settings.quota.window.burst(self.rate, self.burst)
        return f"{self.rate:g} mutations a second, {at_once:,.0f} at once"


class Way(enum.Enum):
    """The client by which the storm changes topics; the value is the name of the arm."""

    FREE = "without a quota"
    ASKS = "with a quota"
    GATEWAY = "Java client, gateway"
    BROKER = "Java client, broker's quota"


LIMITED = (Way.ASKS, Way.GATEWAY, Way.BROKER)
"""The ways with a quota."""


def run_arm(plan: Plan, settings: Settings, console: Console, way: Way, quota: StormQuota | None) -> Arm:
    """Run an arm on an embedded cluster, or in its own topics on a cluster that the settings name.

    Raises:
        MutationQuotaError: The job failed, or the cluster cannot do what the experiment needs.
    """
    name = way.value
    console.print(name if quota is None else f"{name}: {quota.words(settings)}", style="bold")
    prefix = f"experiment-{uuid.uuid4().hex[:8]}"
    with ExitStack() as stack:
        status = stack.enter_context(console.status("starting a broker and Spark"))
        folder = stack.enter_context(TemporaryDirectory(prefix="mutation-quota-"))
        settings, alive = stack.enter_context(
            cluster(deployment(settings, prefix, folder), prefix, embedded=plan.embedded)
        )
        spark = stack.enter_context(deployment_session(settings, "experiment", Path(folder) / "spark.log"))
        if quota is not None and way in _USERS:
            write_record(settings, QuotaRecord(QuotaEntity(_USERS[way]), quota.rate, quota.burst))
        query = start_enforce(spark, settings)
        stack.callback(stop_after_batch, [query])

        def check() -> None:
            alive()
            check_queries([query])

        storm = _storm(stack, settings, way, quota)
        clients = {DIRECT: plain_client(settings), DECIDED: deciding_client(stack, settings, "tenant")}
        tenants = {
            who: Tenant(client, settings.target_connection, f"{prefix}-{who}") for who, client in clients.items()
        }
        for number, tenant in enumerate(tenants.values()):  # alternating
            stack.enter_context(tenant.at_work(number * EVERY_SECONDS / len(tenants)))
        course = Course(plan, tenants, clients[DIRECT], storm, f"{prefix}-{STORM_USER}", console, status, check)
        return course.run(name)


_USERS = {Way.ASKS: STORM_USER, Way.GATEWAY: ANONYMOUS}
"""The storm's user where the job decides: the gateway's clients do not authenticate."""

MakeStorm = Callable[[float, Clock], Storm]
"""Makes a storm with a time limit in seconds and a clock."""


def _storm(stack: ExitStack, settings: Settings, way: Way, quota: StormQuota | None) -> MakeStorm:
    """Return the function that makes the storms of an arm."""
    if way in (Way.FREE, Way.ASKS):
        client = plain_client(settings) if way is Way.FREE else deciding_client(stack, settings, STORM_USER)
        return partial(ClientStorm, client)
    address, own_quota = settings.kafka.bootstrap_servers, quota.rate if quota else None
    if way is Way.GATEWAY:
        address, own_quota = stack.enter_context(embedded_gateway(settings)).address, None
    jars = jars_folder(settings.broker.jars)
    return partial(JavaStorm, stack.enter_context(java_admin(jars, address, STORM_USER, own_quota)))


@dataclass
class Course:
    """The course of an arm: warm-up, baseline, creation and deletion."""

    plan: Plan
    tenants: Mapping[str, Tenant]
    plain: AdminClient
    storm: MakeStorm
    prefix: str
    """Prefix of the storm's topics."""
    console: Console
    status: Status
    check: Callable[[], None]
    """Raises if the cluster or the job has ended."""
    began: float = 0.0
    """Start of the storm, monotonic time in seconds."""

    def run(self, name: str) -> Arm:
        """Warm up, measure a baseline, create and delete."""
        self._warm_up()
        self._rest("baseline", self.plan.baseline + REST_SECONDS)
        self.began = time.monotonic()
        first = -self.plan.baseline - REST_SECONDS
        quiet = between(self._creates(DIRECT), first, -REST_SECONDS)
        slowest = max(each.seconds_to_use or 0.0 for each in quiet)
        creation = self._phase("creation", self._create, slowest)
        self._rest("rest", REST_SECONDS)
        made = done(creation.settled)
        if not made:
            raise MutationQuotaError("no topic of the storm was created")
        deletion = self._phase("deletion", lambda storm: storm.delete(sorted(made)), slowest)
        self._rest("the last answers", REST_SECONDS)
        for who, tenant in self.tenants.items():
            if tenant.error:
                self.console.print(f"  tenant {who}: {tenant.error}", style="red")
        creates = {who: tuple(between(self._creates(who), first, deletion.ended)) for who in self.tenants}
        return Arm(name, creates, creation, deletion)

    def _warm_up(self) -> None:
        """Wait until each tenant has a usable topic, and some time more: first batches and a new broker are slow."""
        first = self.storm(_FIRST_BATCH_SECONDS, self._now)
        first.create([f"{self.prefix}-first"])
        others = ClientStorm(self.plain, _FIRST_BATCH_SECONDS, self._now)
        others.create([f"{self.prefix}-warm-{number}" for number in range(min(_WARM_TOPICS, self.plan.topics))])

        def is_warm() -> bool:
            usable = all(any(each.usable is not None for each in self._creates(who)) for who in self.tenants)
            return usable and first.is_over and others.is_over

        if not self._wait(is_warm, _FIRST_BATCH_SECONDS, lambda: "warming up: the first topic of each tenant"):
            raise MutationQuotaError(f"a tenant has no topic within {_FIRST_BATCH_SECONDS:.0f} s")
        self._rest("warming up", self.plan.warm_up)

    def _phase(self, name: str, begin: Callable[[Storm], None], usual: float) -> Phase:
        """Run the creation or the deletion, from its first request until the cluster has caught up."""
        begun = self._now()
        storm = self.storm(self.plan.limit, self._now)
        begin(storm)

        def doing() -> str:
            return f"{name}: {len(done(storm.settled)):,} of {self.plan.topics:,} topics"

        self._wait(lambda: storm.is_over, self.plan.limit + _GRACE_SECONDS, doing)
        settled = storm.settled
        caught_up = self._catch_up(name, settled, last_answer(settled, begun), usual)
        self._rest(name, begun + self.plan.least - self._now())
        ended = self._now() if caught_up is None else max(caught_up, begun + self.plan.least)
        phase = Phase(begun, settled, caught_up, ended)
        self._notify(name, phase)
        return phase

    def _create(self, storm: Storm) -> None:
        """Send the requests at their times, without waiting for earlier ones."""
        started = time.monotonic()
        for number, request in enumerate(portions(self._names, PER_REQUEST)):
            time.sleep(max(0.0, started + number / REQUESTS_PER_SECOND - time.monotonic()))
            storm.create(list(request))

    def _catch_up(self, name: str, settled: Sequence[Settled], answered: float, usual: float) -> float | None:
        """Return the time when the cluster has caught up; None if it has not in time.

        It has caught up when topics that a tenant creates after the storm's last answer are usable as quickly as
        before, and when the metadata has the topics that the storm has created, and none that it has deleted.
        """
        changed = done(settled)
        expected = changed if name == "creation" else frozenset[str]()
        moments: list[float] = []

        def caught_up() -> bool:
            normal = back_to_normal(self._creates(DIRECT), answered, usual)
            if normal is None:
                return False
            moments.append(self._now() if moments else normal)
            return changed & self.plain.list_topics(timeout=_GRACE_SECONDS).topics.keys() == expected

        def doing() -> str:
            waiting = sum(each.usable is None for each in self._creates(DIRECT))
            return f"{name}: {waiting} topics of the tenant wait to be usable"

        return moments[-1] if self._wait(caught_up, _CATCH_UP_SECONDS, doing) else None

    @property
    def _names(self) -> list[str]:
        return [f"{self.prefix}-{number}" for number in range(self.plan.topics)]

    def _creates(self, who: str) -> tuple[Create, ...]:
        return self.tenants[who].creates(self.began)

    def _now(self) -> float:
        return time.monotonic() - self.began

    def _rest(self, what: str, seconds: float) -> None:
        until = self._now() + seconds
        self._wait(lambda: self._now() >= until, seconds, lambda: f"{what}: {until - self._now():.0f} s")

    def _wait(self, is_over: Callable[[], bool], seconds: float, doing: Callable[[], str]) -> bool:
        """Wait for a condition while cluster and job run; return whether it became true in time."""
        deadline = time.monotonic() + seconds
        updated_at = 0.0
        while not is_over():
            now = time.monotonic()
            if now > deadline:
                return False
            if now - updated_at > _NOTIFY_SECONDS:
                self.check()
                self.status.update(doing())
                updated_at = now
            time.sleep(_POLL_SECONDS)
        return True

    def _notify(self, name: str, phase: Phase) -> None:
        seconds = phase.answered - phase.begun
        topics = f"{len(done(phase.settled)):,} of {len(phase.settled):,} topics in {seconds:.1f} s"
        late = "never" if phase.caught_up is None else f"{phase.caught_up - phase.answered:.1f} s later"
        self.console.print(f"  {name}: {topics}; caught up: {late}")
        failed = next((each for each in phase.settled if each.error and not each.refused), None)
        if failed:
            self.console.print(f"  {failed.name}: {failed.error}", style="red")
