"""Admin clients that obey the mutation quotas: confluent-kafka's, with each change of topics decided first."""

from quota.kafka.admin.calls import ThrottlingQuotaExceededError
from quota.kafka.admin.client import QuotaAdminClient

__all__ = ["QuotaAdminClient", "ThrottlingQuotaExceededError"]
