"""Admin clients that obey the mutation quotas: confluent-kafka's, with each change of topics decided first."""

from quota.kafka.admin.client import QuotaAdminClient
from quota.kafka.admin.errors import ThrottlingQuotaExceededError

__all__ = ["QuotaAdminClient", "ThrottlingQuotaExceededError"]
