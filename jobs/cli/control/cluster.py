"""`mutation-quota cluster`: the metadata of a cluster, for callbacks that depend on it."""

from dataclasses import replace
from typing import Annotated

import typer

from jobs.cli.control.quota_log import prepare_quota_topic, sign
from jobs.cli.options import (
    BootstrapServer,
    Comment,
    ConfigFile,
    Json,
    Overrides,
    print_json,
    read_settings,
)
from quota.records.quota_log import ClusterRecord
from quota.text import format_time


def publish(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="HOST:PORT", help="The cluster to ask; kafka.target_servers by default."),
    ] = None,
    comment: Comment = None,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Write topics, partitions and their leaders to the quota log, if they have changed since the last time.

    Requests from then on are judged by them, where the callback takes partitions into account. The log keeps each
    such record for a week: publish every hour or so, not every second.
    """
    settings = read_settings(context, overrides, config, server)
    from quota.kafka.quota_writer import publish_cluster
    from quota.kafka.reading import read_cluster

    prepare_quota_topic(settings)
    connection = settings.target_connection
    if source:
        connection = replace(connection, servers=source)
    cluster = read_cluster(connection, settings.kafka.timeout_seconds)
    since = publish_cluster(settings, sign(ClusterRecord(cluster), settings, comment))
    counts = {"topics": len(cluster.topics), "partitions": cluster.partitions}
    if as_json:
        print_json({"published": since is not None, "since": since, **counts})
        return
    what = f"{counts['topics']} topics with {counts['partitions']} partitions"
    print(f"Nothing has changed: {what}." if since is None else f"Published {what}, from {format_time(since)} on.")
