"""`mutation-quota cluster`: what callbacks may know of the cluster."""

from dataclasses import replace
from typing import Annotated

import typer

from jobs.cli.options import (
    BootstrapServer,
    Comment,
    ConfigFile,
    Json,
    Overrides,
    operator,
    print_json,
    settings_of,
    text_of,
)
from quota.text import format_time


def publish(
    context: typer.Context,
    source: Annotated[
        str | None, typer.Option("--from", metavar="HOST:PORT", help="The cluster to ask, if it is another one.")
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
    settings = settings_of(context, overrides, config, server)
    from quota.kafka.cluster import publish_cluster, read_cluster
    from quota.kafka.topics.specs import prepare_topics

    prepare_topics(settings, [settings.topics.quotas])
    asked = replace(settings.target_connection, servers=source) if source else settings.kafka.connection
    cluster = read_cluster(asked, settings.kafka.timeout_seconds)
    since = publish_cluster(settings, cluster, operator(settings), text_of("comment", comment))
    found = {"topics": len(cluster.topics), "partitions": cluster.partitions}
    if as_json:
        print_json({"published": since is not None, "since": since, **found})
        return
    what = f"{found['topics']} topics with {found['partitions']} partitions"
    print(f"Nothing has changed: {what}." if since is None else f"Published {what}, from {format_time(since)} on.")
