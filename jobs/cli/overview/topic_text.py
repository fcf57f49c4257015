"""Prints described topics for a terminal of 80 columns."""

from jobs.cli.output import print_table
from jobs.cli.program.wording import labelled
from quota.text import describe_sharing, format_seconds, plural, quoted
from schemas.documents.described_topics import ChargedQuota, DescribedPartition, DescribedTopic, DescribedTopics


def print_described(document: DescribedTopics, *, all_partitions: bool) -> None:
    """Print topics, and before them the quota that their changes are charged to.

    Args:
        document: the topics and the quota.
        all_partitions: whether to print all partitions, or only those without a leader or under-replicated.
    """
    charged = document.charged
    if charged is not None:
        who = f"user {quoted(charged.user)} with client-id {quoted(charged.client_id)}"
        print(labelled("Charged", f"{who}: {_quota_text(charged)}"))
        print()
    for number, topic in enumerate(document.topics):
        if number:
            print()
        _print_topic(topic, charged, all_partitions=all_partitions)
    if not document.topics:
        print("No topics.")


def _print_topic(topic: DescribedTopic, charged: ChargedQuota | None, *, all_partitions: bool) -> None:
    print(labelled("Topic", topic.name))
    print(labelled("Id", topic.topic_id))
    print(labelled("Partitions", f"{len(topic.partitions):,}, replication factor {topic.replication_factor}"))
    print(labelled("Configs", _configs_text(topic)))
    print(labelled("To grow it", "1 mutation for each partition that is added"))
    print(labelled("To delete it", _deletion_text(topic, charged)))
    rows = [
        [str(each.partition), _broker(each.leader), _brokers(each.replicas), _brokers(each.in_sync)]
        for each in topic.partitions
        if all_partitions or not _is_healthy(each)
    ]
    if rows:
        print_table(("PARTITION", "LEADER", "REPLICAS", "IN SYNC"), rows, numbers=("PARTITION", "LEADER"))


def _is_healthy(partition: DescribedPartition) -> bool:
    """Return whether a partition has a leader, and all of its replicas are in sync."""
    return partition.leader is not None and set(partition.in_sync) >= set(partition.replicas)


def _quota_text(charged: ChargedQuota) -> str:
    if charged.exempt:
        return "unlimited, the user is exempt (quota.exempt_users)"
    if charged.controller_mutation_rate is None:
        return "unlimited, no quota applies"
    whose = f" set for {charged.entity}" if charged.entity else ""
    bucket = f"bucket {describe_sharing(charged.bucket or {})}"
    shadow = "; in shadow: admitted, and only reported" if charged.shadow else ""
    rate, burst = charged.controller_mutation_rate, charged.burst
    return f"{rate:g} mutations/s{whose}, burst {burst:g}, {bucket}{shadow}"


def _configs_text(topic: DescribedTopic) -> str:
    if topic.configs is None:
        return "cannot be read by this principal"
    return ", ".join(f"{name}={value}" for name, value in topic.configs.items()) or "the brokers' defaults"


def _deletion_text(topic: DescribedTopic, charged: ChargedQuota | None) -> str:
    cost = plural(topic.costs.deletion, "mutation")
    wait = topic.costs.wait_after_deletion_ms
    if charged is None or wait is None:
        return cost
    if not wait:
        return f"{cost}: a full bucket covers {'it' if topic.costs.deletion == 1 else 'them'}"
    return f"{cost}: a full bucket is in debt for {format_seconds(wait)} afterwards"


def _broker(broker: int | None) -> str:
    return "none" if broker is None else str(broker)


def _brokers(brokers: list[int]) -> str:
    return ",".join(map(str, brokers)) or "none"
