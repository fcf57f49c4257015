"""The interface of a quota callback: KIP-257's, in Python's spelling."""

import enum
from collections.abc import Mapping
from typing import NamedTuple, Protocol, Self

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from quota.records.entity import QuotaEntity
from quota.records.quota_log import Cluster, Quota


class ClientQuotaType(enum.Enum):
    """The type of a quota; of Kafka's types only the one that KIP-599 added."""

    CONTROLLER_MUTATION = "CONTROLLER_MUTATION"


class KafkaPrincipal(NamedTuple):
    """The principal that sends a request."""

    principal_type: str
    name: str


class ConfigEntityType(enum.Enum):
    """The type of a part of an entity."""

    USER = "USER"
    CLIENT_ID = "CLIENT_ID"
    DEFAULT_USER = "DEFAULT_USER"
    DEFAULT_CLIENT_ID = "DEFAULT_CLIENT_ID"


class ConfigEntity(NamedTuple):
    """A part of an entity; the `name` of a default is empty."""

    name: str
    entity_type: ConfigEntityType


class ClientQuotaEntity(NamedTuple):
    """The entity a quota is configured for: one part, or a user followed by a client-id."""

    config_entities: tuple[ConfigEntity, ...]

    @classmethod
    def of(cls, entity: QuotaEntity) -> Self:
        """Convert an entity of the quota log."""
        kinds = ConfigEntityType
        users = _part(entity.user, kinds.USER, kinds.DEFAULT_USER)
        clients = _part(entity.client_id, kinds.CLIENT_ID, kinds.DEFAULT_CLIENT_ID)
        return cls((*users, *clients))


class QuotaValue(float):
    """The rate of a quota (mutations/s), as in KIP-257, with the entity and the options it was set with.

    A `quota_limit` that returns one keeps the entity and the options; a plain number is a rate alone.
    """

    def __new__(cls, quota: Quota, entity: QuotaEntity | None = None) -> Self:
        """Return the rate of a quota, with the quota and the entity it is set for."""
        value = super().__new__(cls, quota.rate)
        value.quota = quota
        value.entity = entity
        return value

    quota: Quota
    entity: QuotaEntity | None

    def times(self, share: float) -> "QuotaValue":
        """Return the quota times `share`: its rate, and its own burst if it has one; the other options stay."""
        quota = self.quota
        burst = None if quota.burst is None else quota.burst * share
        return QuotaValue(replace(quota, rate=quota.rate * share, burst=burst), self.entity)


class ClientQuotaCallback(Protocol):
    """Decides which requests share a quota, and its limit.

    Each Python worker creates an instance without arguments, configures it, passes it the quota log up to the
    time of a request, and then calls it for that request. A replay gives the same decisions only if the results
    depend on nothing else. Calls come from one thread at a time. If a method raises, the requests concerned become dead
    letters with the reason.
    """

    def configure(self, configs: Mapping[str, str]) -> None:
        """Apply the configs (`quota.callback_configs`), after construction and when they change.

        Args:
            configs: the value of each config, by its name.

        Raises:
            Exception: any exception rejects the configs.
        """

    def quota_metric_tags(
        self, quota_type: ClientQuotaType, principal: KafkaPrincipal, client_id: str
    ) -> Mapping[str, str]:
        """Return the tags of a request's bucket; requests with the same tags share it.

        The conventional tags are `user` and `client-id`, empty if unused; up to six others are allowed (together at
        most 1,024 bytes more than the two names). A request without tags, or with only empty ones, is unlimited.

        Args:
            quota_type: CONTROLLER_MUTATION.
            principal: the user of the request.
            client_id: its client-id.
        """

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        """Return the limit for these tags in mutations/s, above 0; None, for tags no longer in use, means unlimited.

        The result is cached until a quota is updated or removed, the instance is configured again, or
        `update_cluster_metadata` or `quota_reset_required` returns true.

        Args:
            quota_type: CONTROLLER_MUTATION.
            metric_tags: the tags that `quota_metric_tags` returned.
        """

    def update_quota(self, quota_type: ClientQuotaType, quota_entity: ClientQuotaEntity, new_value: float) -> None:
        """Store a quota that was set.

        Args:
            quota_type: CONTROLLER_MUTATION.
            quota_entity: the entity that the quota is set for.
            new_value: a `QuotaValue`, the rate in mutations/s.
        """

    def remove_quota(self, quota_type: ClientQuotaType, quota_entity: ClientQuotaEntity) -> None:
        """Drop a quota that was removed."""

    def quota_reset_required(self, quota_type: ClientQuotaType) -> bool:
        """Return whether limits may have changed since the last call, other than by a quota that was set or removed.

        Called on each request.
        """

    def update_cluster_metadata(self, cluster: Cluster) -> bool:
        """Store the cluster's partitions and their leaders; return whether limits may have changed."""

    def close(self) -> None:
        """Release the resources of the instance."""


def _part(name: str | UnsetType | None, named: ConfigEntityType, default: ConfigEntityType) -> list[ConfigEntity]:
    if name is UNSET:
        return []
    return [ConfigEntity("", default) if name is None else ConfigEntity(name, named)]
