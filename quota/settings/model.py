"""All settings, a section an attribute."""

from pydantic import BaseModel

from quota.admission.policy import Policy
from quota.algorithms.deduplication import Deduplication
from quota.settings.connection import Connection
from quota.settings.jobs import ApplySettings, AuditSettings, EnforceSettings, MetricsSettings, MinutesSettings
from quota.settings.sections import (
    BrokerSettings,
    ClientSettings,
    KafkaSettings,
    LimitSettings,
    QuotaSettings,
    RepeatSettings,
    SparkSettings,
    StorageSettings,
    TargetSettings,
    TopicSettings,
)
from quota.settings.security import SECTION


class Settings(BaseModel):
    """All settings, a section an attribute."""

    model_config = SECTION

    kafka: KafkaSettings = KafkaSettings()
    target: TargetSettings = TargetSettings()
    storage: StorageSettings = StorageSettings()
    topics: TopicSettings = TopicSettings()
    quota: QuotaSettings = QuotaSettings()
    repeats: RepeatSettings = RepeatSettings()
    limits: LimitSettings = LimitSettings()
    enforce: EnforceSettings = EnforceSettings()
    audit: AuditSettings = AuditSettings()
    minutes: MinutesSettings = MinutesSettings()
    apply: ApplySettings = ApplySettings()
    client: ClientSettings = ClientSettings()
    metrics: MetricsSettings = MetricsSettings()
    spark: SparkSettings = SparkSettings()
    broker: BrokerSettings = BrokerSettings()

    @property
    def target_connection(self) -> Connection:
        """How the cluster is reached that mutations are for."""
        by = self.target if self.target.model_fields_set else self.kafka
        return Connection(self.kafka.target_servers or self.kafka.bootstrap_servers, by.security)

    @property
    def policy(self) -> Policy:
        """What holds for all requests alike."""
        return Policy(
            max_bytes=self.limits.max_request_bytes,
            max_topics=self.limits.max_topics,
            max_name_chars=self.limits.max_name_chars,
            exempt_users=frozenset(self.quota.exempt_users),
            shadow=self.quota.shadow,
            repeats=Deduplication(round(self.repeats.window_seconds * 1000), self.repeats.most_per_bucket),
            requests_of_users=self.topics.by_users,
        )
