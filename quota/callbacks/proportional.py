"""Partition-proportional quotas: limits in proportion to the partitions that a tenant owns.

An example of a KIP-257 callback whose quotas depend on the cluster's metadata:

    [quota]
    callback_class = "quota.callbacks.proportional.PartitionProportionalCallback"

    [quota.callback_configs]
    "owner.separator" = "."     # alice's topic orders is alice.orders
    "minimum.share" = 0.01      # of the quota, for a tenant that owns less, or nothing

`mutation-quota callback publish-metadata` writes the metadata to the quota log; until then the configured quotas apply.
"""

import math
from collections import Counter
from collections.abc import Mapping

from quota.callbacks.default import DefaultQuotaCallback
from quota.callbacks.interface import ClientQuotaType, QuotaValue
from quota.records.quota_log import Cluster

_SEPARATOR = "owner.separator"
_MINIMUM = "minimum.share"


class PartitionProportionalCallback(DefaultQuotaCallback):
    """Multiplies the quota of the eight levels by the tenant's share of all partitions that any tenant owns.

    The tenant is the user; a quota of a client-id alone applies as configured.
    """

    def __init__(self) -> None:
        super().__init__()
        self._separator = "."
        self._minimum = 0.01
        self._cluster: Cluster | None = None
        self._shares: dict[str, float] | None = None

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the separator and the minimum share.

        Raises:
            ValueError: a config is unknown, or its value is invalid.
        """
        unknown = configs.keys() - {_SEPARATOR, _MINIMUM}
        if unknown:
            raise ValueError(f"{min(unknown)} is unknown: expected {_SEPARATOR} or {_MINIMUM}")
        separator, minimum = configs.get(_SEPARATOR, "."), configs.get(_MINIMUM, "0.01")
        if not separator:
            raise ValueError(f"{_SEPARATOR} is empty")
        try:
            self._minimum = float(minimum)
        except ValueError:
            self._minimum = math.nan
        if not 0 < self._minimum <= 1:
            raise ValueError(f"{_MINIMUM} is {minimum}: expected a number above 0 and at most 1")
        self._separator = separator
        self._compute_shares()

    def owner(self, topic: str) -> str | None:
        """Return the tenant that owns a topic: its name up to the first separator; None without a separator."""
        tenant, separator, _ = topic.partition(self._separator)
        return tenant if separator else None

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        """Return the configured quota times the share."""
        quota = super().quota_limit(quota_type, metric_tags)
        user = metric_tags.get("user")
        if quota is None or not user or self._shares is None:
            return quota
        share = max(self._shares.get(user, 0.0), self._minimum)
        return quota.times(share) if isinstance(quota, QuotaValue) else quota * share

    def update_cluster_metadata(self, cluster: Cluster) -> bool:
        """Recompute the shares; return whether any share has changed."""
        previous, self._cluster = self._shares, cluster
        self._compute_shares()
        return self._shares != previous

    def _compute_shares(self) -> None:
        if self._cluster is None:
            return
        owned: Counter[str] = Counter()
        for topic, leaders in self._cluster.topics.items():
            tenant = self.owner(topic)
            if tenant:
                owned[tenant] += len(leaders)
        total = owned.total()
        self._shares = {tenant: count / total for tenant, count in owned.items() if count}
