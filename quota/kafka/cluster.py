"""The metadata of a cluster, for callbacks that take partitions into account (KIP-257)."""

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from quota.errors import ClusterError
from quota.kafka.clients import client_config, unreachable
from quota.kafka.quota_log import read_log
from quota.kafka.quota_writer import write_records
from quota.records.quota_log import Cluster, ClusterRecord
from quota.settings.connection import Connection
from quota.settings.model import Settings


def read_cluster(connection: Connection, timeout_seconds: float) -> Cluster:
    """Ask a cluster for its topics and their leaders.

    Raises:
        ClusterError: it cannot be reached.
    """
    config = client_config(connection)
    try:
        topics = AdminClient(config).list_topics(timeout=timeout_seconds).topics
    except KafkaException as error:
        raise ClusterError(f"cannot reach Kafka at {connection}: {unreachable(config, error)}") from None
    leaders = {
        name: [topic.partitions[number].leader for number in sorted(topic.partitions)]
        for name, topic in sorted(topics.items())
        if topic.error is None
    }
    return Cluster({name: [each if each >= 0 else None for each in found] for name, found in leaders.items()})


def publish_cluster(settings: Settings, cluster: Cluster, altered_by: str | None, comment: str | None) -> int | None:
    """Write metadata to the quota log, unless it is there already.

    Returns:
        The moment from which it holds, as the broker stamped it (epoch ms); None where nothing has changed.

    Raises:
        ClusterError: the log cannot be read or written.
    """
    entries = reversed(read_log(settings, keep=True).entries)
    latest = next((each.record for each in entries if isinstance(each.record, ClusterRecord)), None)
    if latest is not None and latest.cluster == cluster:
        return None
    (entry,) = write_records(settings, [ClusterRecord(cluster, altered_by=altered_by, comment=comment)])
    return entry.timestamp
