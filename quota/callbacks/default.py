"""KIP-257's default callback: the eight levels, as Kafka has them.

The jobs do not ask it, because `quota.timeline.timeline` gives the same answers for any moment at the same cost. It is
what a callback of one's own begins with, and what the timeline is tested against.
"""

from collections.abc import Mapping

from quota.callbacks.interface import ClientQuotaEntity, ClientQuotaType, ConfigEntity, ConfigEntityType, KafkaPrincipal
from quota.records.quota_log import Cluster

_DEFAULT_USER = ConfigEntity("", ConfigEntityType.DEFAULT_USER)
_DEFAULT_CLIENT = ConfigEntity("", ConfigEntityType.DEFAULT_CLIENT_ID)

_NO_TAGS = {"user": "", "client-id": ""}


class DefaultQuotaCallback:
    """The most specific of eight levels wins, and its tags say who shares the quota."""

    def __init__(self) -> None:
        self._quotas: dict[ClientQuotaEntity, float] = {}

    def configure(self, configs: Mapping[str, str]) -> None:
        """There is nothing to configure."""

    def quota_metric_tags(
        self, quota_type: ClientQuotaType, principal: KafkaPrincipal, client_id: str
    ) -> Mapping[str, str]:
        """The tags of the most specific level that has a quota; empty ones where none has."""
        user, client = ConfigEntity(principal.name, ConfigEntityType.USER), _client(client_id)
        both = {"user": principal.name, "client-id": client_id}
        per_user, per_client = both | {"client-id": ""}, both | {"user": ""}
        levels = (
            ((user, client), both),
            ((user, _DEFAULT_CLIENT), both),
            ((user,), per_user),
            ((_DEFAULT_USER, client), both),
            ((_DEFAULT_USER, _DEFAULT_CLIENT), both),
            ((_DEFAULT_USER,), per_user),
            ((client,), per_client),
            ((_DEFAULT_CLIENT,), per_client),
        )
        return next((tags for level, tags in levels if ClientQuotaEntity(level) in self._quotas), _NO_TAGS)

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        """The quota of the most specific level that leads to these tags."""
        user, client_id = metric_tags.get("user", ""), metric_tags.get("client-id", "")
        users = (ConfigEntity(user, ConfigEntityType.USER), _DEFAULT_USER)
        clients = (_client(client_id), _DEFAULT_CLIENT)
        levels: list[tuple[ConfigEntity, ...]]
        if user and client_id:
            levels = [(each, client) for each in users for client in clients]
        else:
            levels = [(each,) for each in (users if user else clients)]
        return next((quota for level in levels if (quota := self._quotas.get(ClientQuotaEntity(level)))), None)

    def update_quota(self, quota_type: ClientQuotaType, quota_entity: ClientQuotaEntity, new_value: float) -> None:
        """Keep a quota."""
        self._quotas[quota_entity] = new_value

    def remove_quota(self, quota_type: ClientQuotaType, quota_entity: ClientQuotaEntity) -> None:
        """Forget a quota."""
        self._quotas.pop(quota_entity, None)

    def quota_reset_required(self, quota_type: ClientQuotaType) -> bool:
        """Limits change by updates alone."""
        return False

    def update_cluster_metadata(self, cluster: Cluster) -> bool:
        """The cluster does not matter."""
        return False

    def close(self) -> None:
        """There is nothing to give back."""


def _client(client_id: str) -> ConfigEntity:
    return ConfigEntity(client_id, ConfigEntityType.CLIENT_ID)
