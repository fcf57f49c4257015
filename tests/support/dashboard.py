"""Data for a dashboard: requests decided, without Spark, by the quotas of the quota topic."""

from quota.kafka.quotas.log import KafkaQuotas, QuotaLog
from tests.support.gateway import StandIn


class FollowingStandIn(StandIn):
    """Decides requests by the quota log, as the job does, instead of its own quotas."""

    def __enter__(self):
        self._log = QuotaLog(KafkaQuotas.from_settings(self._settings, 10.0))
        return super().__enter__()

    def _decide(self, record):
        self._log.read_to_end()
        self._quotas = self._log.quotas
        return super()._decide(record)
