"""KIP-257's default callback: the eight levels.

It is the base class to start a callback from. The jobs do not call it: `quota.timeline.timeline` resolves the eight
levels at any time at the same cost.
"""

from collections.abc import Mapping

from msgspec import UNSET

from quota.callbacks.interface import ClientQuotaEntity, ClientQuotaType, KafkaPrincipal
from quota.records.entity import NO_TAGS
from quota.records.levels import levels
from quota.records.quota_log import Cluster


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
        candidates = levels(principal.name, client_id)
        tags = next((tags for entity, tags in candidates if ClientQuotaEntity.of(entity) in self._quotas), NO_TAGS)
        return {"user": tags.user, "client-id": tags.client_id}

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        """Return the quota of the most specific level that leads to these tags."""
        user, client_id = metric_tags.get("user", ""), metric_tags.get("client-id", "")
        sharing = (
            self._quotas.get(ClientQuotaEntity.of(entity))
            for entity, _ in levels(user, client_id)
            if (entity.user is not UNSET, entity.client_id is not UNSET) == (bool(user), bool(client_id))
        )
        return next((quota for quota in sharing if quota), None)

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
