"""Client quota callbacks that tests name by their class."""

from pathlib import Path
from typing import ClassVar

from quota.callbacks.default import DefaultQuotaCallback
from quota.callbacks.interface import ConfigEntityType, QuotaValue
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Quota


class Recording(DefaultQuotaCallback):
    """A callback that records its calls in `calls` of the class."""

    calls: ClassVar[list[tuple]] = []

    def configure(self, configs):
        self.calls.append(("configure", dict(configs)))

    def update_quota(self, quota_type, quota_entity, new_value):
        super().update_quota(quota_type, quota_entity, new_value)
        self.calls.append(("update", [tuple(entity) for entity in quota_entity.config_entities], float(new_value)))

    def remove_quota(self, quota_type, quota_entity):
        super().remove_quota(quota_type, quota_entity)
        self.calls.append(("remove", [tuple(entity) for entity in quota_entity.config_entities]))

    def update_cluster_metadata(self, cluster):
        self.calls.append(("cluster", dict(cluster.topics)))
        return False

    def close(self):
        self.calls.append(("close",))


class Answering(DefaultQuotaCallback):
    """A callback that returns `tags`, `limit` and `reset` of the class; an exception is raised."""

    tags: object = {}
    limit: object = None
    reset: object = False
    limit_calls = 0

    def quota_metric_tags(self, quota_type, principal, client_id):
        return self.returned(self.tags)

    def quota_limit(self, quota_type, metric_tags):
        type(self).limit_calls += 1
        return self.returned(self.limit)

    def quota_reset_required(self, quota_type):
        return self.returned(self.reset)

    @staticmethod
    def returned(answer):
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Failing(DefaultQuotaCallback):
    """A callback that fails on quotas of users below 2, on a cluster without topics, and on a config named bad."""

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
    """A callback whose constructor fails while `broken`."""

    broken = True

    def __init__(self):
        if self.broken:
            raise RuntimeError("no luck")
        super().__init__()


class HasAQuota(DefaultQuotaCallback):
    """A callback with one bucket for all and a quota with options, whatever is configured."""

    def quota_metric_tags(self, quota_type, principal, client_id):
        return {"client-id": "", "zone": "z", "area": "a"}

    def quota_limit(self, quota_type, metric_tags):
        return QuotaValue(Quota(4.0, 40.0, 1000, shadow=True)).times(0.5)


class OfSomeoneElse(HasAQuota):
    """A callback whose quota belongs to an entity with a name longer than any request."""

    def quota_limit(self, quota_type, metric_tags):
        return QuotaValue(Quota(4.0), QuotaEntity("x" * 10_000))


class NeedsConfigs(DefaultQuotaCallback):
    """A callback that fails on every quota and cluster until it has its config."""

    def configure(self, configs):
        self.factor = float(configs["factor"])

    def update_quota(self, quota_type, quota_entity, new_value):
        super().update_quota(quota_type, quota_entity, new_value * self.factor)

    def update_cluster_metadata(self, cluster):
        return self.factor > 0


class Stale(DefaultQuotaCallback):
    """A callback whose limit follows the number of topics, which it never reports; with one topic it raises."""

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
    """A class that implements no method of the interface."""


class Closing(DefaultQuotaCallback):
    """A callback that records in the file of its configs that it was closed."""

    def configure(self, configs):
        self.file = Path(configs["file"])

    def close(self):
        with self.file.open("a") as file:
            file.write("closed\n")
