"""Admin clients that obey the mutation quotas: confluent-kafka's, with each change of topics decided first.

`QuotaAdminClient` is the client, `TopicFuture` what its methods return for each topic, and
`ThrottlingQuotaExceededError` the error of a topic that a quota rejects. `BadInput` and `ClusterError` are raised when
a client cannot be created. `help(QuotaAdminClient)` has an example and all keys of its configuration.
"""

from quota.errors import BadInput, ClusterError
from quota.kafka.admin.calls import ThrottlingQuotaExceededError, TopicFuture
from quota.kafka.admin.client import QuotaAdminClient

__all__ = ["BadInput", "ClusterError", "QuotaAdminClient", "ThrottlingQuotaExceededError", "TopicFuture"]
