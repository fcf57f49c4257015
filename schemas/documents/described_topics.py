"""Documents on the topics of a cluster."""

import msgspec

from quota.records.entity import QuotaEntity


class ListedTopic(msgspec.Struct, frozen=True):
    """A topic of the target cluster."""

    name: str
    """Its name."""
    partition_count: int
    """The number of partitions."""
    replication_factor: int
    """The number of replicas of a partition."""
    leaderless: int
    """The number of partitions without a leader."""
    under_replicated: int
    """The number of partitions with a replica that lags behind or is offline."""


class Topics(msgspec.Struct, frozen=True):
    """The output of `topics list`."""

    topics: list[ListedTopic]
    """The topics that this principal may describe, by name."""


class DescribedPartition(msgspec.Struct, frozen=True):
    """A partition."""

    partition: int
    """Its number."""
    leader: int | None
    """The id of the broker that leads it; null for none."""
    replicas: list[int]
    """The ids of the brokers with a replica."""
    in_sync: list[int]
    """The ids of the brokers whose replica is in sync."""


class TopicCosts(msgspec.Struct, frozen=True):
    """The costs of changing a topic."""

    growth_per_partition: int
    """The mutations that a partition to add costs."""
    deletion: int
    """The mutations that deleting the topic costs."""
    wait_after_deletion_ms: int | None
    """The time in ms that a full bucket is in debt after the deletion, 0 for none; null without a quota."""


class DescribedTopic(msgspec.Struct, frozen=True):
    """A topic of the target cluster, with its partitions."""

    name: str
    """Its name."""
    topic_id: str
    """The id that the cluster gave the topic."""
    replication_factor: int
    """The number of replicas of a partition."""
    configs: dict[str, str | None] | None
    """The configs that are set on the topic itself; null if this principal may not read them."""
    costs: TopicCosts
    """The costs of changing the topic."""
    partitions: list[DescribedPartition]
    """The partitions."""


class ChargedQuota(msgspec.Struct, frozen=True):
    """The quota that mutations of a user and client-id are charged to now."""

    user: str
    """The user."""
    client_id: str
    """The client-id."""
    exempt: bool
    """Whether the user is never throttled."""
    entity: QuotaEntity | None
    """The entity that the quota is set for; null for none, or if a callback decides."""
    controller_mutation_rate: float | None
    """Partition mutations per second; null without a quota."""
    burst: float | None
    """The mutations that a full bucket holds; null without a quota."""
    max_debt_ms: int | None
    """The longest time in ms that one mutation may throttle its tenant; null for no bound."""
    shadow: bool
    """Whether mutations above the quota are admitted, and only reported."""
    bucket: dict[str, str] | None
    """The tags of the bucket; null without a quota."""


class DescribedTopics(msgspec.Struct, frozen=True):
    """The output of `topics describe`."""

    charged: ChargedQuota | None
    """The quota of --user and --client; null if neither is given."""
    topics: list[DescribedTopic]
    """The topics, by name."""
