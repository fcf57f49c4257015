"""What a gateway remembers of its clients' mutations: changed topics, debts, buckets, and who changes what at present.

A broker's metadata lags behind the controller, by milliseconds when it is quiet and by seconds in a storm. Without the
memory of recent changes, topics would be deleted for free as long as the brokers do not know them, or for the cost of
earlier topics.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from quota.algorithms.token_bucket import Admission, charge_request, gain, throttle_ms
from quota.explanation.shortfall import Shortfall
from quota.records.decision import BucketBefore, Decision
from quota.records.entity import Tags
from quota.records.quota_log import Quota
from quota.records.request import MutationRequest

K = TypeVar("K")
V = TypeVar("V")

_MAX_TOPICS = 100_000
_FRESH_MS = 1000
"""How long a decision answers for the next one: a change of the quota, or a reset of the bucket, ends the debt."""
_MAX_CLIENTS = 10_000

NO_ID = bytes(16)
"""The topic id that means none (Kafka's zero UUID)."""

Client = tuple[str, str]
"""A user and a client-id, as in decisions."""
PlacesAhead = Callable[[], int]
"""Returns the number of those before a turn; 0 if it is its turn."""


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """A topic of the cluster."""

    name: str
    topic_id: bytes
    """`NO_ID` if it is unknown."""
    partitions: int
    may_delete: bool = True
    """Whether the client may delete it, as far as is known."""


class RecentTopics:
    """The topics that were changed lately, as they are now, and those that were deleted.

    Times are ms of one monotonic clock.
    """

    def __init__(self, remembered_ms: int = 60_000) -> None:
        """Remember each change for a time."""
        self._remembered_ms = remembered_ms
        self._changes: OrderedDict[str, tuple[ExistingTopic, int]] = OrderedDict()  # by name, the oldest first
        self._names: dict[bytes, str] = {}
        self._gone: OrderedDict[bytes | str, int] = OrderedDict()  # by id, or name without an id, the oldest first

    def record(self, topic: ExistingTopic, now: int) -> None:
        """Record the state of a topic since `now`; an earlier topic of its name, with another id, is gone."""
        known = self._changes.get(topic.name)
        if known is not None and known[0].topic_id not in {NO_ID, topic.topic_id}:
            self._record_gone(known[0].topic_id, now)
        self._forget(topic.name)
        self._gone.pop(topic.name, None)
        self._changes[topic.name] = topic, now
        if topic.topic_id != NO_ID:
            self._names[topic.topic_id] = topic.name
        while len(self._changes) > _MAX_TOPICS or now - next(iter(self._changes.values()))[1] > self._remembered_ms:
            self._forget(next(iter(self._changes)))

    def record_deletion(self, topic: ExistingTopic, now: int) -> None:
        """Record that a topic, which may have been recorded before, is gone."""
        known = self._changes.get(topic.name)
        if known is not None and (topic.topic_id in {NO_ID, known[0].topic_id} or known[0].topic_id == NO_ID):
            self._record_gone(known[0].topic_id, now)
            self._forget(topic.name)
        self._record_gone(topic.name if topic.topic_id == NO_ID else topic.topic_id, now)

    def find(self, name: str | None, topic_id: bytes, now: int) -> ExistingTopic | None:
        """Return a topic by its name or, without one, by its id; None if it was not changed lately."""
        known = self._changes.get(self._names.get(topic_id, "") if name is None else name)
        return known[0] if known is not None and now - known[1] <= self._remembered_ms else None

    def is_changed(self, name: str, since: int) -> bool:
        """Return whether a topic was created or has grown since a time."""
        known = self._changes.get(name)
        return known is not None and known[1] >= since

    def is_gone(self, identity: bytes | str, now: int) -> bool:
        """Return whether the topic with this id was deleted lately, or that of this name whose id was not known.

        An id is never used again.
        """
        deleted_at = self._gone.get(identity)
        return deleted_at is not None and now - deleted_at <= self._remembered_ms

    def _forget(self, name: str) -> None:
        known = self._changes.pop(name, None)
        if known is not None:
            self._names.pop(known[0].topic_id, None)

    def _record_gone(self, identity: bytes | str, now: int) -> None:
        if identity != NO_ID:
            self._gone.pop(identity, None)
            self._gone[identity] = now
            while len(self._gone) > _MAX_TOPICS or now - next(iter(self._gone.values())) > self._remembered_ms:
                self._gone.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Debt:
    """The debt of a client. Times are ms of one monotonic clock."""

    ends_at: int
    decided_at: int
    shortfall: Shortfall | None
    """What the decision told; None if it has no bucket."""

    def is_fresh(self, now: int) -> bool:
        """Return whether the decision is so new that another one would tell the same debt."""
        return now - self.decided_at < _FRESH_MS


class Debts:
    """The debts of the clients that were decided last."""

    def __init__(self) -> None:
        self._debts: OrderedDict[Client, Debt] = OrderedDict()
        self._unrecorded: OrderedDict[Client, int] = OrderedDict()

    def record(self, client: Client, throttle_ms: int, now: int, shortfall: Shortfall | None) -> None:
        """Record the throttle time of a decision, by user and client-id, and the bucket as it left it."""
        if throttle_ms:
            _keep(self._debts, client, Debt(now + throttle_ms, now, shortfall))
        else:
            self._debts.pop(client, None)

    def find(self, client: Client, now: int) -> Debt | None:
        """Return the debt of a client that is not paid off yet, as far as is known."""
        known = self._debts.get(client)
        return known if known is not None and known.ends_at > now else None

    def add_unrecorded(self, client: Client, topics: int) -> None:
        """Count topics that are rejected without a decision, until the client's next request for one reports them."""
        if topics:
            _keep(self._unrecorded, client, self._unrecorded.get(client, 0) + topics)

    def take_unrecorded(self, client: Client) -> int:
        """Return the number of these topics since the last call, for the client's next request."""
        return self._unrecorded.pop(client, 0)


class KnownBuckets:
    """The buckets of the clients that were decided last, as they go on by themselves: times are ms of one clock.

    A client that is not among them is taken for one of its user's bucket over all clients, if that is known: otherwise
    a debt would be avoided by another client-id.
    """

    def __init__(self) -> None:
        self._tags: OrderedDict[Client, Tags] = OrderedDict()
        self._buckets: OrderedDict[Tags, tuple[BucketBefore, Quota]] = OrderedDict()

    def record(self, decision: Decision, decided_at: int) -> None:
        """Record the bucket of a client, as it is after a decision; none if no quota is enforced."""
        _keep(self._tags, (decision.user, decision.client_id), decision.tags)
        quota, tokens = decision.applied_quota, decision.tokens
        if quota is None or quota.burst is None or tokens is None or decision.shadow or decision.exempt:
            self._buckets.pop(decision.tags, None)
            return
        bucket = BucketBefore(tokens, decided_at, quota.rate, quota.burst, quota.max_debt_ms)
        _keep(self._buckets, decision.tags, (bucket, quota))

    def debt_ms(self, client: Client, now: int) -> int:
        """Return the time until the debt of a client's bucket is paid off, as far as is known."""
        known = self._buckets.get(self.tags_of(client))
        if known is None:
            return 0
        bucket, _ = known
        tokens = gain(bucket.tokens, bucket.quota, now - (bucket.updated_at or now), bucket.burst)
        return throttle_ms(tokens, bucket.tokens, bucket.quota)

    def topic_limit(self, client: Client) -> float:
        """Return what a topic of a client may cost, as far as is known."""
        known = self._buckets.get(self.tags_of(client))
        return math.inf if known is None else known[1].topic_limit

    def charge(self, client: Client, request: MutationRequest, now: int) -> Admission | None:
        """Charge a request that is not decided; return the answer of the client's bucket, None if that is not known."""
        tags = self.tags_of(client)
        known = self._buckets.get(tags)
        if known is None:
            return None
        bucket, quota = known
        admission = charge_request(bucket, request, now, quota, bucket.burst)
        if any(admission.admitted) and admission.tokens is not None:
            self._buckets[tags] = replace(bucket, tokens=admission.tokens, updated_at=now), quota
        return admission

    def tags_of(self, client: Client) -> Tags:
        """Return the tags of a client's bucket, as far as is known."""
        return self._tags.get(client) or Tags(client[0], "")


def _keep(entries: OrderedDict[K, V], key: K, value: V) -> None:
    """Set the newest entry; the oldest one goes if there are too many."""
    entries.pop(key, None)
    entries[key] = value
    if len(entries) > _MAX_CLIENTS:
        entries.popitem(last=False)


class Turns:
    """The turns for each of some names. A turn for several names comes when it is the first for all of them.

    A turn ends with its time, so that a broker that does not answer holds up no longer than that.
    """

    def __init__(self) -> None:
        self._turns: dict[str, OrderedDict[int, int]] = {}
        """The end of the time of each call that runs or waits, by name and by the call's number."""

    @contextmanager
    def take(self, names: Iterable[str], ends_at: int, clock: Callable[[], int]) -> Iterator[PlacesAhead]:
        """Take a turn behind all earlier ones for these names, for the block, at most until `ends_at` [ms of `clock`].

        It is taken for all of them at once, so that no two turns wait for each other.
        """
        taken: dict[str, tuple[OrderedDict[int, int], int]] = {}
        for name in names:
            if name not in taken:
                turns = self._turns.setdefault(name, OrderedDict())
                taken[name] = turns, next(reversed(turns), 0) + 1
                turns[taken[name][1]] = ends_at
        try:
            yield lambda: max((_ahead(turns, number, clock()) for turns, number in taken.values()), default=0)
        finally:  # also when the client has left
            for name, (turns, number) in taken.items():
                turns.pop(number, None)
                if not turns and self._turns.get(name) is turns:
                    del self._turns[name]


def _ahead(turns: OrderedDict[int, int], number: int, now: int) -> int:
    """Return how many turns are before one, without those whose time is over."""
    while (first := next(iter(turns), number)) < number and turns[first] <= now:
        del turns[first]
    return max(number - first, 0)
