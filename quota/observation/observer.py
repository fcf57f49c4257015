"""Mutation requests from logged requests: the user, the cost, and the cluster's answer."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from quota.errors import ErrorCode
from quota.observation.request_log import LoggedRequest, LoggedTopic
from quota.records.record import EpochMs
from quota.records.request import MutationRequest, Observed, Operation, TopicMutation

_IDS_SINCE = 7
"""The first version of CREATE_TOPICS whose response has the ids of topics."""


def is_done(request: LoggedRequest, topic: LoggedTopic) -> bool:
    """Return whether a mutation was, or after a timeout may still be, carried out.

    With ZooKeeper it continues, and the response to a creation has the topic's id; a KRaft controller aborts it.
    """
    if topic.error_code == ErrorCode.REQUEST_TIMED_OUT:
        has_ids = request.operation is Operation.CREATE_TOPICS and request.api_version >= _IDS_SINCE
        return topic.topic_id is not None or not has_ids
    return topic.error_code == ErrorCode.NONE


class TopicSizes:
    """The numbers of partitions of topics; requests must be passed in the order of time."""

    def __init__(self, known: Mapping[str, int] | None = None, default_partitions: int | None = None) -> None:
        """Start with the partitions of the topics before the first request; the default is the brokers' if known."""
        self._sizes = dict(known or {})
        self._names: dict[str, str] = {}
        self._default = default_partitions

    def name(self, topic: LoggedTopic) -> str:
        """Return the name of a topic, or its id where the name is not known."""
        return topic.name or self._names.get(topic.topic_id or "") or f"topic-id:{topic.topic_id}"

    def cost(self, request: LoggedRequest, topic: LoggedTopic) -> int | None:
        """Return the cost of a topic of a request [mutations], None if it is unknown.

        A mutation that was carried out is recorded.
        """
        name = self.name(topic)
        done = is_done(request, topic) and not request.validate_only
        match request.operation:
            case Operation.CREATE_TOPICS:
                return self._created(name, topic, done=done)
            case Operation.CREATE_PARTITIONS:
                before = self._sizes.get(name)
                if done:
                    self._sizes[name] = topic.count
                # A growth that was done added something: a size of the same count is from a later snapshot.
                is_known = before is not None and (before < topic.count or not done)
                return max(topic.count - (before or 0), 0) if is_known else topic.assigned or None
            case Operation.DELETE_TOPICS:
                if done:
                    self._names.pop(topic.topic_id or "", None)
                return self._sizes.pop(name, None) if done else self._sizes.get(name)

    def _created(self, name: str, topic: LoggedTopic, *, done: bool) -> int | None:
        counts = (topic.partitions, topic.count, topic.assigned)
        size = next((count for count in counts if count > 0), self._default)
        if done:
            if topic.topic_id:
                self._names[topic.topic_id] = name
            if size is not None:
                self._sizes[name] = size
            else:
                self._sizes.pop(name, None)
        return size


ASSUMED_PARTITIONS = 1
"""The assumed cost of a topic whose cost is not in the log: the smallest one possible."""


class TimedRequest(MutationRequest, frozen=True, kw_only=True):
    """A mutation request with its timestamp, as a line of a file of requests."""

    timestamp: EpochMs


@dataclass
class Counts:
    """The counts of a log's requests."""

    requests: Counter[Operation] = field(default_factory=Counter)
    """Requests with a mutation that the cluster has carried out or rejected by a quota."""
    mutations: Counter[Operation] = field(default_factory=Counter)
    """The mutations of these requests, including rejected ones."""
    rejected_topics: int = 0
    throttled_requests: int = 0
    validate_only: int = 0
    failed_topics: Counter[int] = field(default_factory=Counter)
    """Topics with another error, by its code: they cost nothing."""
    assumed_topics: Counter[Operation] = field(default_factory=Counter)
    """Topics whose cost is assumed."""
    first_at: int | None = None
    last_at: int | None = None


class Observer:
    """Turns logged requests, in the order of time, into mutation requests."""

    def __init__(self, sizes: TopicSizes, user_of: Callable[[str], str]) -> None:
        """Start at the beginning of a log, with the topics before it, and the user of a principal of the log."""
        self.counts = Counts()
        self._sizes = sizes
        self._user_of = user_of

    def observe(self, logged: LoggedRequest) -> MutationRequest | None:
        """Return the request that quotas would have decided; None if all of it failed for other reasons."""
        topics: list[TopicMutation] = []
        codes, assumed = [], []
        for topic in logged.topics:
            cost = self._sizes.cost(logged, topic)
            if topic.error_code != ErrorCode.THROTTLING_QUOTA_EXCEEDED and not is_done(logged, topic):
                self.counts.failed_topics[topic.error_code] += 1
                continue
            if cost is None:
                assumed.append(len(topics))
            topics.append(TopicMutation(self._sizes.name(topic), ASSUMED_PARTITIONS if cost is None else cost))
            codes.append(topic.error_code if topic.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED else 0)
        if not topics:
            return None
        observed = Observed(
            max(logged.received_at, 0),
            codes,
            max(logged.throttle_time_ms, 0),
            logged.completed_at - logged.received_at,
            assumed,
        )
        request = MutationRequest(
            f"{logged.connection}/{logged.correlation_id}/{observed.at}",
            logged.operation,
            logged.api_version,
            topics,
            self._user_of(logged.principal),
            logged.client_id or "",
            logged.validate_only,
            apply=False,
            observed=observed,
        )
        self._count(request, observed)
        return request

    def _count(self, request: MutationRequest, observed: Observed) -> None:
        counts, operation = self.counts, request.operation
        counts.requests[operation] += 1
        counts.validate_only += request.validate_only
        if not request.validate_only:
            counts.mutations[operation] += sum(topic.partitions for topic in request.topics)
        counts.assumed_topics[operation] += len(observed.assumed)
        counts.rejected_topics += sum(map(bool, observed.error_codes))
        counts.throttled_requests += observed.throttle_time_ms > 0
        counts.first_at = min(observed.at, observed.at if counts.first_at is None else counts.first_at)
        counts.last_at = max(observed.at, observed.at if counts.last_at is None else counts.last_at)
