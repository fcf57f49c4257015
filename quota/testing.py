"""A harness for tests of a quota callback, without Kafka or Spark."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from quota.admission.decide import decide
from quota.admission.policy import Policy
from quota.admission.resolve import resolve
from quota.algorithms.token_bucket import Bucket, TokenBucket
from quota.callbacks.instance import check_callbacks
from quota.callbacks.interface import ClientQuotaCallback
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadRecord
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision
from quota.records.entity import QuotaEntity, Tags
from quota.records.levels import Resolution
from quota.records.quota_log import (
    CallbackRecord,
    Callbacks,
    CallbackSetting,
    Cluster,
    ClusterRecord,
    Quota,
    QuotaLogRecord,
    QuotaRecord,
    Window,
    read_quota_log_record,
)
from quota.records.record import Record, Source
from quota.records.request import STRICT_SINCE, MutationRequest, Operation, TopicMutation
from quota.timeline.change import to_change

__all__ = ["CallbackHarness"]


class CallbackHarness:
    """Runs a callback with the code of the jobs, on its own quota log, buckets and clock.

    The callback gets the log as in the jobs: in order, up to the time of a request. A request from before a change is
    resolved by a new instance. The test advances the clock.

    Examples:
        >>> from quota.callbacks import GroupQuotaCallback, Quota, QuotaEntity
        >>> configs = {"group.pay.users": "alice;bob", "group.pay.controller_mutation_rate": "2"}
        >>> harness = CallbackHarness(GroupQuotaCallback, configs)
        >>> harness.resolve("alice", "app").tags.items()
        [('group', 'pay')]

        The burst is 2 mutations/s * 11 s = 22 tokens, which the group shares:

        >>> harness.decide("alice", "app", 20, 5).tokens
        -3.0
        >>> rejected = harness.decide("bob", "app", 1)
        >>> rejected.outcome.value, rejected.throttle_time_ms
        ('REJECTED', 1500)
        >>> harness.advance(seconds=1.5)
        >>> harness.decide("bob", "app", 1).outcome.value
        'ADMITTED'

        Other users have the quotas of the eight levels, as of the time of the request:

        >>> harness.set_quota(QuotaEntity("carol"), Quota(5))
        >>> harness.resolve("carol", "app").limit
        Limit(quota=Quota(rate=5.0, burst=None, max_debt_ms=None, shadow=False, max_request_mutations=None), since=1500)
        >>> harness.resolve("carol", "app", at=1499).limit is None
        True
    """

    def __init__(
        self,
        callback: type[ClientQuotaCallback],
        configs: Mapping[str, str] | None = None,
        *,
        window: Window = Window(),  # noqa: B008 it is immutable
    ) -> None:
        """Check the callback as a job does before it starts, at the time 0.

        Args:
            callback: the class, at the top level of an importable module: the jobs load it by its name.
            configs: the first configs (`quota.callback_configs`).
            window: the window of the token bucket.

        Raises:
            BadInput: the class cannot be loaded, lacks a method, or rejects the configs.
        """
        self.now = 0
        """The current time [epoch ms]."""
        self._class_name = f"{callback.__module__}.{callback.__qualname__}"
        callbacks = Callbacks(self._class_name, tuple((configs or {}).items()))
        check_callbacks(callbacks)
        self._quotas = CallbackTimeline(callbacks)
        self._algorithm = TokenBucket(window)
        self._buckets: dict[Tags, Bucket | None] = {}
        self._requests = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def advance(self, seconds: float) -> None:
        """Advance the clock by a number of seconds."""
        self.now += round(seconds * 1000)

    def write(self, record: QuotaLogRecord) -> None:
        """Append a record to the quota log, with the current time as its timestamp.

        Raises:
            BadRecord: the record is invalid.
        """
        self._quotas.add(to_change(read_quota_log_record(codec.encode(record), record.key), self.now))

    def set_quota(self, entity: QuotaEntity, quota: Quota | None) -> None:
        """Set the quota of an entity from the current time on; None removes it.

        Raises:
            BadRecord: the quota is invalid.
        """
        self.write(QuotaRecord.of(entity, quota))

    def set_cluster(self, topics: Mapping[str, Sequence[int | None]]) -> None:
        """Set the cluster's metadata from the current time on.

        Args:
            topics: the leader of each partition (a node id, None for no leader), by topic name.

        Raises:
            BadRecord: the metadata is invalid.
        """
        self.write(ClusterRecord(Cluster({name: list(leaders) for name, leaders in topics.items()})))

    def configure(self, configs: Mapping[str, str]) -> None:
        """Replace the configs of the callback from the current time on.

        Raises:
            BadRecord: the configs are invalid.
        """
        self.write(CallbackRecord(CallbackSetting(self._class_name, dict(configs))))

    def resolve(self, user: str, client_id: str, *, at: int | None = None) -> Resolution:
        """Return the quota of a request, with the tags of its bucket.

        Args:
            user: the user of the request.
            client_id: its client-id.
            at: its timestamp, epoch ms; by default the current time.

        Raises:
            CallbackError: the callback raised or returned an invalid result.
        """
        return self._quotas.resolve(user, client_id, self.now if at is None else at)

    def decide(self, user: str, client_id: str, *partitions: int, at: int | None = None) -> Decision:
        """Decide a request to create topics, from a client that knows THROTTLING_QUOTA_EXCEEDED (strict mode).

        Args:
            user: the user of the request.
            client_id: its client-id.
            partitions: the number of partitions of each topic, which is its cost.
            at: its timestamp, epoch ms; by default the current time.

        Raises:
            BadRecord: the request is a dead letter; the message is its error, for example that of a callback that
                failed.
        """
        operation = Operation.CREATE_TOPICS
        source = Source("mutation-requests", 0, self._requests)
        self._requests += 1
        topics = [TopicMutation(name=f"topic-{number}", partitions=count) for number, count in enumerate(partitions)]
        request = MutationRequest(str(source), operation, STRICT_SINCE[operation], topics, user, client_id)
        record = Record(source, self.now if at is None else at, codec.encode(request))
        resolved = resolve(record, self._quotas, Policy())
        if isinstance(resolved, DeadLetter):
            raise BadRecord(resolved.error)
        tags = resolved.resolution.tags
        self._buckets[tags], decision = decide(self._buckets.get(tags), resolved, self._algorithm)
        return decision

    def close(self) -> None:
        """Close the callback's instances."""
        self._quotas.close()
