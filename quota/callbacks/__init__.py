"""KIP-257's quota callback: the interface, the default, two examples, and the timeline that calls them."""

from quota.callbacks.default import DefaultQuotaCallback
from quota.callbacks.groups import GroupQuotaCallback
from quota.callbacks.interface import (
    ClientQuotaCallback,
    ClientQuotaEntity,
    ClientQuotaType,
    ConfigEntity,
    ConfigEntityType,
    KafkaPrincipal,
    QuotaValue,
)
from quota.callbacks.proportional import PartitionProportionalCallback
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Cluster, Quota

__all__ = [
    "ClientQuotaCallback",
    "ClientQuotaEntity",
    "ClientQuotaType",
    "Cluster",
    "ConfigEntity",
    "ConfigEntityType",
    "DefaultQuotaCallback",
    "GroupQuotaCallback",
    "KafkaPrincipal",
    "PartitionProportionalCallback",
    "Quota",
    "QuotaEntity",
    "QuotaValue",
]
