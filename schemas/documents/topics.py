"""Documents on topics."""

import msgspec


class TopicChange(msgspec.Struct, frozen=True):
    """The result of one topic's change."""

    topic: str
    outcome: str
    """`created`, `altered`, `deleted`, `valid`, `rejected` by the quota, `failed`, or `would be deleted`."""
    error: str | None = None
    """The reason why the change was rejected or failed; null if it succeeded."""
    throttle_time_ms: int = 0
    """The throttle time, in ms: until another attempt if the quota rejected the change, otherwise until a next one."""
    retry_at: int | None = None
    """The end of that time, epoch ms; null without a throttle time."""
    decision_id: str | None = None
    """The id of the last decision on the change, as `explain` takes it; null if there was none."""


class TopicChanges(msgspec.Struct, frozen=True):
    """The output of `topics create`, `topics alter` and `topics delete`."""

    topics: list[TopicChange]


class ListedTopic(msgspec.Struct, frozen=True):
    """A topic of the target cluster."""

    name: str
    partition_count: int
    replication_factor: int
    leaderless: int
    """The number of partitions without a leader."""
    under_replicated: int
    """The number of partitions with a replica that lags behind or is offline."""


class Topics(msgspec.Struct, frozen=True):
    """The output of `topics list`."""

    topics: list[ListedTopic]
    """The topics that this principal may describe, by name."""
