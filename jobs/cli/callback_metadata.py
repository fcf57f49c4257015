"""`mutation-quota callback publish-metadata`: the metadata of a cluster, for callbacks that depend on it."""

from dataclasses import replace
from typing import Annotated

import typer

from jobs.cli.options import Comment, TargetOptions
from jobs.cli.output import OutputOptions
from jobs.cli.quotas.log import prepare_quota_topic, sign
from quota.errors import BadInput
from quota.records.quota_log import ClusterRecord
from quota.text import format_time, plural
from schemas.documents.cluster import PublishedCluster


def publish_metadata(
    source: Annotated[
        str | None,
        typer.Option(
            "--source-server", metavar="HOST:PORT", help="Cluster to describe. Default: kafka.target_servers."
        ),
    ] = None,
    comment: Comment = None,
    *,
    output: OutputOptions,
    kafka: TargetOptions,
) -> None:
    """Publish topics, partitions and leaders for callbacks.

    Writes the metadata to the quota log if it has changed since the last time. Callbacks that depend on partitions use
    it for requests from then on. The log keeps each record for a week: publish about every hour, not every second.

    Examples:
      mutation-quota callback publish-metadata
      mutation-quota callback publish-metadata --source-server target:9092
    """
    if source == "":
        raise BadInput("--source-server is empty: expected HOST:PORT")
    settings = kafka.read()
    from quota.kafka.quotas.writer import publish_cluster
    from quota.kafka.topics.topic_admin import read_cluster

    prepare_quota_topic(settings)
    connection = settings.target_connection
    if source is not None:
        connection = replace(connection, servers=source, servers_from="--source-server")
    cluster = read_cluster(connection, settings.kafka.timeout_seconds)
    since = publish_cluster(settings, sign(ClusterRecord(cluster), settings, comment))
    document = PublishedCluster(since is not None, since, len(cluster.topics), cluster.partitions)
    what = f"{plural(document.topic_count, 'topic')} with {plural(document.partition_count, 'partition')}"
    line = f"Nothing has changed: {what}." if since is None else f"Published {what}, from {format_time(since)} on."
    output.print(document, lambda: print(line))
