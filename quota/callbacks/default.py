"""KIP-257's default callback: the eight levels.

It is the base class to start a callback from. The jobs do not call it: `quota.timeline.timeline` resolves the eight
levels at any time at the same cost. Tests compare the two, so the levels are written out here a second time, in
KIP-257's types, and not taken from `quota.timeline.levels`: an error there would otherwise be in both.
"""

from collections.abc import Mapping

from quota.callbacks.interface import ClientQuotaEntity, ClientQuotaType, ConfigEntity, ConfigEntityType, KafkaPrincipal
from quota.records.quota_log import Cluster

_DEFAULT_USER = ConfigEntity("", ConfigEntityType.DEFAULT_USER)
_DEFAULT_CLIENT = ConfigEntity("", ConfigEntityType.DEFAULT_CLIENT_ID)

_NO_TAGS = {"user": "", "client-id": ""}


class DefaultQuotaCallback:
    """Resolves a request by the most specific of eight levels; the tags of that level identify the bucket."""

    def __init__(self) -> None:
        self._quotas: dict[ClientQuotaEntity, float] = {}

    def configure(self, configs: Mapping[str, str]) -> None:
        """Do nothing: there are no configs."""

    def quota_metric_tags(
        self, quota_type: ClientQuotaType, principal: KafkaPrincipal, client_id: str
    ) -> Mapping[str, str]:
        """Return the tags of the most specific level that has a quota; empty tags if no level has one."""
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
        """Return the quota of the most specific level that leads to these tags."""
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
        """Store a quota."""
        self._quotas[quota_entity] = new_value

    def remove_quota(self, quota_type: ClientQuotaType, quota_entity: ClientQuotaEntity) -> None:
        """Drop a quota."""
        self._quotas.pop(quota_entity, None)

    def quota_reset_required(self, quota_type: ClientQuotaType) -> bool:
        """Return false: limits change by updates only."""
        return False

    def update_cluster_metadata(self, cluster: Cluster) -> bool:
        """Return false: limits do not depend on the cluster."""
        return False

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


def _client(client_id: str) -> ConfigEntity:
    return ConfigEntity(client_id, ConfigEntityType.CLIENT_ID)
