"""Callbacks that tests name by their class."""

from pathlib import Path
from typing import ClassVar

from quota.callbacks.default import DefaultQuotaCallback
from quota.callbacks.interface import ConfigEntityType, QuotaValue
from quota.records.entity import QuotaEntity
from quota.records.quota import Quota


class Recording(DefaultQuotaCallback):
    """Writes down what it is told, in `calls` of the class."""

    calls: ClassVar[list[tuple]] = []

    def configure(self, configs):
        self.calls.append(("configure", dict(configs)))

    def update_quota(self, quota_type, quota_entity, new_value):
        super().update_quota(quota_type, quota_entity, new_value)
        self.calls.append(("update", [tuple(each) for each in quota_entity.config_entities], float(new_value)))

    def remove_quota(self, quota_type, quota_entity):
        super().remove_quota(quota_type, quota_entity)
        self.calls.append(("remove", [tuple(each) for each in quota_entity.config_entities]))

    def update_cluster_metadata(self, cluster):
        self.calls.append(("cluster", dict(cluster.topics)))
        return False

    def close(self):
        self.calls.append(("close",))


class Answering(DefaultQuotaCallback):
    """Answers what `tags` and `limit` of the class say; an exception is raised."""

    tags: object = {}
    limit: object = None
    reset: object = False
    asked = 0

    def quota_metric_tags(self, quota_type, principal, client_id):
        return self.given(self.tags)

    def quota_limit(self, quota_type, metric_tags):
        type(self).asked += 1
        return self.given(self.limit)

    def quota_reset_required(self, quota_type):
        return self.given(self.reset)

    @staticmethod
    def given(answer):
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Failing(DefaultQuotaCallback):
    """Takes no quota of users below 2, no cluster without topics, and no config called bad."""

    def configure(self, configs):
        if "bad" in configs:
            raise ValueError("bad is bad")

    def update_quota(self, quota_type, quota_entity, new_value):
        super().update_quota(quota_type, quota_entity, new_value)
        if new_value < 2 and quota_entity.config_entities[0].entity_type is ConfigEntityType.USER:
            raise ValueError(f"{float(new_value)} is too little")

    def update_cluster_metadata(self, cluster):
        if not cluster.topics:
            raise LookupError("no topics")
        return False


class Unmakeable(Recording):
    """Cannot be made while `broken`."""

    broken = True

    def __init__(self):
        if self.broken:
            raise RuntimeError("no luck")
        super().__init__()


class HasAQuota(DefaultQuotaCallback):
    """One bucket for all, with options, whatever is set."""

    def quota_metric_tags(self, quota_type, principal, client_id):
        return {"client-id": "", "zone": "z", "area": "a"}

    def quota_limit(self, quota_type, metric_tags):
        return QuotaValue(Quota(4.0, 40.0, 1000, shadow=True)).times(0.5)


class OfSomeoneElse(HasAQuota):
    """Its quota is that of an entity whose name is longer than any request."""

    def quota_limit(self, quota_type, metric_tags):
        return QuotaValue(Quota(4.0), QuotaEntity("x" * 10_000))


class NeedsConfigs(DefaultQuotaCallback):
    """Fails on everything it is told until it is configured well."""

    def configure(self, configs):
        self.factor = float(configs["factor"])

    def update_quota(self, quota_type, quota_entity, new_value):
        super().update_quota(quota_type, quota_entity, new_value * self.factor)

    def update_cluster_metadata(self, cluster):
        return self.factor > 0


class Stale(DefaultQuotaCallback):
    """Takes the number of topics for the limit, and raises and says nothing of it, in turn."""

    topics = 0

    def quota_metric_tags(self, quota_type, principal, client_id):
        return {"user": "all"}

    def quota_limit(self, quota_type, metric_tags):
        return 1 + self.topics

    def update_cluster_metadata(self, cluster):
        self.topics = len(cluster.topics)
        if self.topics == 1:
            raise RuntimeError("half done")
        return False


an_instance = DefaultQuotaCallback()


class NoCallback:
    """Lacks everything."""


class Closing(DefaultQuotaCallback):
    """Says in the file of its configs that it was closed."""

    def configure(self, configs):
        self.file = Path(configs["file"])

    def close(self):
        with self.file.open("a") as file:
            file.write("closed\n")
