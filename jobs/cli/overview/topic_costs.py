"""The cost of changing a topic, and the quota that it is charged to."""

from collections.abc import Mapping
from dataclasses import dataclass

from quota.admission.resolve import resolve_quota
from quota.algorithms.token_bucket import charge, throttle_ms
from quota.errors import BadRecord, MutationQuotaError
from quota.kafka.quotas.log import read_log
from quota.kafka.topics.layouts import TopicConfig, TopicLayout
from quota.records.quota import Quota
from quota.records.request import ANONYMOUS, NO_CLIENT_ID, TopicMutation
from quota.settings import Settings
from quota.text import quoted
from schemas.documents.described_topics import ChargedQuota, DescribedPartition, DescribedTopic, TopicCosts


@dataclass(frozen=True, slots=True)
class Charged:
    """The quota that mutations are charged to."""

    document: ChargedQuota
    quota: Quota | None
    burst: float
    """The tokens of a full bucket."""


def charged_quota(settings: Settings, user: str | None, client_id: str | None) -> Charged:
    """Return the quota of a user and a client-id as of now.

    Raises:
        ClusterError: the quota log cannot be read.
        MutationQuotaError: the callback fails for them.
    """
    user, client_id = user or ANONYMOUS, client_id or NO_CLIENT_ID
    log = read_log(settings)
    try:
        found = resolve_quota(user, client_id, log.now, log.quotas, settings.policy)
    except BadRecord as error:
        who = f"user {quoted(user)} with client-id {quoted(client_id)}"
        raise MutationQuotaError(f"requests of {who} are dead letters: {error}") from None
    quota = found.limit.quota if found.limit else None
    burst = settings.quota.window.burst(quota.rate, quota.burst) if quota else 0.0
    document = ChargedQuota(
        user,
        client_id,
        found.exempt,
        found.entity,
        quota.rate if quota else None,
        burst if quota else None,
        quota.max_debt_ms if quota else None,
        found.shadow or (quota is not None and quota.shadow),
        dict(found.tags.items()) if quota else None,
    )
    return Charged(document, quota, burst)


def described_topic(
    layout: TopicLayout, topic_id: str, configs: Mapping[str, TopicConfig] | None, charged: Charged | None
) -> DescribedTopic:
    """Return a topic with the cost of changing it.

    Args:
        layout: the topic.
        topic_id: its id.
        configs: all its configs; None if they cannot be read.
        charged: the quota that changes are charged to; None if it is not requested.
    """
    own = None if configs is None else {name: each.value for name, each in configs.items() if each.is_own}
    partitions = [
        DescribedPartition(each.partition, each.leader, list(each.replicas), list(each.in_sync))
        for each in layout.partitions
    ]
    cost = len(partitions)
    costs = TopicCosts(1, cost, _wait_ms(layout.name, cost, charged))
    return DescribedTopic(layout.name, topic_id, layout.replication_factor, own, costs, partitions)


def _wait_ms(name: str, cost: int, charged: Charged | None) -> int | None:
    """Return how long a full bucket is in debt after the deletion of a topic [ms]; None without a quota."""
    if charged is None or charged.quota is None:
        return None
    _, tokens = charge(charged.burst, charged.burst, [TopicMutation(name, cost)], charged.quota, strict=True)
    return throttle_ms(tokens, tokens, charged.quota.rate)
