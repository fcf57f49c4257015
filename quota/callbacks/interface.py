"""KIP-257's interfaces, in Python's spelling: what a callback is given, and what it has to answer."""

import enum
from collections.abc import Mapping
from typing import NamedTuple, Protocol, Self

from msgspec import UNSET, UnsetType

from quota.records.entity import QuotaEntity
from quota.records.quota import Quota
from quota.records.quota_log import Cluster


class ClientQuotaType(enum.Enum):
    """What a quota is on; of Kafka's types there is the one that KIP-599 added."""

    CONTROLLER_MUTATION = "CONTROLLER_MUTATION"


class KafkaPrincipal(NamedTuple):
    """Who sends a request."""

    principal_type: str
    name: str


class ConfigEntityType(enum.Enum):
    """The parts that an entity can have."""

    USER = "USER"
    CLIENT_ID = "CLIENT_ID"
    DEFAULT_USER = "DEFAULT_USER"
    DEFAULT_CLIENT_ID = "DEFAULT_CLIENT_ID"


class ConfigEntity(NamedTuple):
    """One part of an entity; `name` is empty for a default."""

    name: str
    entity_type: ConfigEntityType


class ClientQuotaEntity(NamedTuple):
    """For whom a quota is configured: one part, or a user's and then a client-id's."""

    config_entities: tuple[ConfigEntity, ...]

    @classmethod
    def of(cls, entity: QuotaEntity) -> Self:
        """As records and commands have it."""
        kinds = ConfigEntityType
        users = _part(entity.user, kinds.USER, kinds.DEFAULT_USER)
        clients = _part(entity.client_id, kinds.CLIENT_ID, kinds.DEFAULT_CLIENT_ID)
        return cls((*users, *clients))


class QuotaValue(float):
    """A quota's rate, as KIP-257 hands it over, that also knows the entity and the options it was set with.

    A callback that answers `quota_limit` with one keeps them; a plain number stands for the rate alone.
    """

    def __new__(cls, quota: Quota, entity: QuotaEntity | None = None) -> Self:
        """The rate of a quota, and whose it is."""
        value = super().__new__(cls, quota.rate)
        value.quota = quota
        value.entity = entity
        return value

    quota: Quota
    entity: QuotaEntity | None

    def times(self, share: float) -> "QuotaValue":
        """A share of it: of the rate, and of the burst, where it has one of its own."""
        quota = self.quota
        burst = None if quota.burst is None else quota.burst * share
        return QuotaValue(Quota(quota.rate * share, burst, quota.max_debt_ms, quota.shadow), self.entity)


class ClientQuotaCallback(Protocol):
    """Decides who shares a quota and how much it is.

    An instance is made without arguments in each Python worker, configured, told what the quota log says up to
    the moment of a request, and then asked. For decisions that can be repeated it must answer by nothing else.
    One thread calls it at a time. Whatever it raises makes the requests concerned dead letters with the reason.
    """

    def configure(self, configs: Mapping[str, str]) -> None:
        """Take settings (`quota.callback_configs`): after construction, and again when they change."""

    def quota_metric_tags(
        self, quota_type: ClientQuotaType, principal: KafkaPrincipal, client_id: str
    ) -> Mapping[str, str]:
        """The tags of the bucket that a request takes from; who has the same tags shares it.

        By convention `user` and `client-id`, empty where that part takes no part; up to six more are allowed.
        Without tags, or with empty ones alone, the request is unlimited.
        """

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        """Mutations per second for these tags, more than 0; None where the tags are no longer in use: unlimited.

        The answer is kept until a quota is updated or removed, the instance is configured anew,
        or `update_cluster_metadata` or `quota_reset_required` says so.
        """

    def update_quota(self, quota_type: ClientQuotaType, quota_entity: ClientQuotaEntity, new_value: float) -> None:
        """Take note of a quota that was set; `new_value` is a `QuotaValue`."""

    def remove_quota(self, quota_type: ClientQuotaType, quota_entity: ClientQuotaEntity) -> None:
        """Take note of a quota that was removed."""

    def quota_reset_required(self, quota_type: ClientQuotaType) -> bool:
        """Whether limits may have changed since the last call, by none of the updates; asked on each request."""

    def update_cluster_metadata(self, cluster: Cluster) -> bool:
        """Take note of the cluster's partitions and their leaders; true if limits may have changed by it."""

    def close(self) -> None:
        """Give back what the instance holds."""


def _part(name: str | UnsetType | None, named: ConfigEntityType, default: ConfigEntityType) -> list[ConfigEntity]:
    if name is UNSET:
        return []
    return [ConfigEntity("", default) if name is None else ConfigEntity(name, named)]
