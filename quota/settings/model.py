"""The settings as one value, and the names of all of them."""

import functools
from collections.abc import Mapping
from typing import get_origin

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from quota.settings.connection import BOOTSTRAP_SERVERS, SECURITY_PROTOCOL, Connection
from quota.settings.jobs import (
    ApplierSettings,
    AuditSettings,
    DashboardSettings,
    EnforceSettings,
    GatewaySettings,
    ObserveSettings,
)
from quota.settings.sections import (
    BrokerSettings,
    ClientSettings,
    KafkaSettings,
    LoggingSettings,
    MetricsSettings,
    QuotaSettings,
    RepeatSettings,
    SparkSettings,
    TopicSettings,
)
from quota.settings.security import SecuritySettings, TargetSettings
from quota.settings.storage import StorageSettings
from quota.settings.types import Section


class Settings(BaseModel):
    """All settings, one attribute per section."""

    model_config = Section.model_config

    kafka: KafkaSettings = Field(default_factory=KafkaSettings)
    target: TargetSettings = Field(default_factory=TargetSettings)
    storage: StorageSettings = Field(default_factory=StorageSettings)
    topics: TopicSettings = Field(default_factory=TopicSettings)
    quota: QuotaSettings = Field(default_factory=QuotaSettings)
    repeats: RepeatSettings = Field(default_factory=RepeatSettings)
    enforce: EnforceSettings = Field(default_factory=EnforceSettings)
    audit: AuditSettings = Field(default_factory=AuditSettings)
    applier: ApplierSettings = Field(default_factory=ApplierSettings)
    gateway: GatewaySettings = Field(default_factory=GatewaySettings)
    observe: ObserveSettings = Field(default_factory=ObserveSettings)
    client: ClientSettings = Field(default_factory=ClientSettings)
    metrics: MetricsSettings = Field(default_factory=MetricsSettings)
    logging: LoggingSettings = Field(default_factory=LoggingSettings)
    dashboard: DashboardSettings = Field(default_factory=DashboardSettings)
    spark: SparkSettings = Field(default_factory=SparkSettings)
    broker: BrokerSettings = Field(default_factory=BrokerSettings)

    @property
    def target_security(self) -> SecuritySettings:
        """The security of connections to the target cluster."""
        return self.target if self.target.is_own else self.kafka

    @property
    def target_connection(self) -> Connection:
        """The connection to the target cluster."""
        own_servers = self.kafka.target_servers
        own_protocol = own_servers or self.target.is_own
        return Connection(
            own_servers or self.kafka.bootstrap_servers,
            self.target_security.security,
            servers_from="kafka.target_servers" if own_servers else BOOTSTRAP_SERVERS,
            protocol_from="target.security_protocol" if own_protocol else SECURITY_PROTOCOL,
        )

    @field_validator("target")
    @classmethod
    def _check_target(cls, target: TargetSettings, info: ValidationInfo) -> TargetSettings:
        kafka = info.data.get("kafka")  # absent if it is invalid itself
        for problem in target.problems_with(kafka) if kafka else ():
            raise ValueError(problem)
        return target


@functools.cache
def sections() -> Mapping[str, Mapping[str, bool]]:
    """Return the sections and their keys, and whether each key is a table, which has entries of any name."""
    models = {section: type(keys).model_fields for section, keys in Settings()}
    return {
        section: {key: get_origin(field.annotation) is dict for key, field in fields.items()}
        for section, fields in models.items()
    }
