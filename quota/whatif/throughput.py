"""What a cluster was seen to carry out: the figures of KIP-599's experiment that quotas are sized by."""

import msgspec

from quota.records.quota_log import Positive


class Throughput(msgspec.Struct, frozen=True):
    """Mutations/s of a storm without a quota, from its first request until the cluster had caught up."""

    created_per_second: Positive
    deleted_per_second: Positive

    @property
    def capacity(self) -> float:
        """What the controller takes whichever it is."""
        return min(self.created_per_second, self.deleted_per_second)
