"""`mutation-quota topics`: kafka-topics.sh's changes, each decided by the quotas first."""

from typing import Annotated, Any

import typer

from jobs.cli.options import BootstrapServer, Client, Json, Overrides, User, parse_pair, read_settings
from quota.errors import BadInput
from quota.settings import Settings

Pattern = Annotated[
    str, typer.Option("--topic", metavar="REGEX", help="Topics by a regular expression; several separated by commas.")
]
Assignment = Annotated[
    str | None,
    typer.Option("--replica-assignment", metavar="0:1,1:2", help="The brokers of each partition's replicas."),
]
IfExists = Annotated[bool, typer.Option("--if-exists", help="Do nothing where there is no such topic.")]
ValidateOnly = Annotated[bool, typer.Option("--validate-only", help="Only have it checked, which costs nothing.")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="client.api_timeout_ms by default.")
]


def create(
    context: typer.Context,
    topic: Annotated[list[str], typer.Option("--topic", metavar="NAME", help="A topic; may be given several times.")],
    partitions: Annotated[
        int, typer.Option("--partitions", help="How many each gets; -1: the cluster's default.")
    ] = -1,
    replication_factor: Annotated[
        int, typer.Option("--replication-factor", help="Of each partition; -1: the cluster's default.")
    ] = -1,
    replica_assignment: Assignment = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A config of the topics.")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Pass over topics that are there.")] = False,
    validate_only: ValidateOnly = False,
    timeout: Timeout = None,
    user: User = None,
    client: Client = None,
    as_json: Json = False,
    overrides: Overrides = None,
    server: BootstrapServer = None,
) -> None:
    """Create topics."""
    configs = dict(parse_pair("config", each) for each in config or [])
    layout: dict[str, Any] = {"num_partitions": partitions, "replication_factor": replication_factor}
    if replica_assignment is not None:
        if (partitions, replication_factor) != (-1, -1):
            raise BadInput("--replica-assignment says how many partitions and replicas there are: leave those out")
        assignment = _parse_assignment(replica_assignment)
        layout = {"num_partitions": len(assignment), "replica_assignment": assignment}
    settings = _client_settings(context, overrides, server, user, client)
    from confluent_kafka.admin import NewTopic

    from jobs.cli.topic_changes import TopicChanges

    with TopicChanges(settings, as_json=as_json) as changes:
        existing = changes.partition_counts() if if_not_exists else {}
        new_topics = [NewTopic(name, **layout, config=configs) for name in topic if name not in existing]
        futures = changes.admin.create_topics(
            new_topics, validate_only=validate_only, request_timeout=timeout, retry_on_quota_violation=False
        )
        changes.report("created", futures)


def alter(
    context: typer.Context,
    topic: Pattern,
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="How many each is to have in the end.")],
    replica_assignment: Assignment = None,
    if_exists: IfExists = False,
    validate_only: ValidateOnly = False,
    timeout: Timeout = None,
    user: User = None,
    client: Client = None,
    as_json: Json = False,
    overrides: Overrides = None,
    server: BootstrapServer = None,
) -> None:
    """Give topics more partitions; a replica assignment tells of those that are there as well."""
    assignment = None if replica_assignment is None else _parse_assignment(replica_assignment)
    settings = _client_settings(context, overrides, server, user, client)
    from confluent_kafka.admin import NewPartitions

    from jobs.cli.topic_changes import TopicChanges

    with TopicChanges(settings, as_json=as_json) as changes:
        new_partitions = [
            NewPartitions(name, partitions, *([] if assignment is None else [assignment[current:]]))
            for name, current in changes.matching(topic, allow_none=if_exists).items()
        ]
        futures = changes.admin.create_partitions(
            new_partitions, validate_only=validate_only, request_timeout=timeout, retry_on_quota_violation=False
        )
        changes.report("altered", futures)


def delete(
    context: typer.Context,
    topic: Pattern,
    if_exists: IfExists = False,
    timeout: Timeout = None,
    user: User = None,
    client: Client = None,
    as_json: Json = False,
    overrides: Overrides = None,
    server: BootstrapServer = None,
) -> None:
    """Delete topics."""
    settings = _client_settings(context, overrides, server, user, client)
    from jobs.cli.topic_changes import TopicChanges

    with TopicChanges(settings, as_json=as_json) as changes:
        names = list(changes.matching(topic, allow_none=if_exists))
        futures = changes.admin.delete_topics(names, request_timeout=timeout, retry_on_quota_violation=False)
        changes.report("deleted", futures)


def _client_settings(
    context: typer.Context, overrides: list[str] | None, server: str | None, user: str | None, client: str | None
) -> Settings:
    """Read the settings, with `--user` and `--client` as the client's.

    A settings file can only be given before the command; after it, --config is a config of the topics.
    """
    settings = read_settings(context, overrides, None, server)
    options = {"user": user, "client_id": client}
    given = {name: value for name, value in options.items() if value is not None}
    return settings.model_copy(update={"client": settings.client.model_copy(update=given)})


def _parse_assignment(text: str) -> list[list[int]]:
    """Parse the brokers of partitions: partitions are separated by commas, the brokers of one by colons."""
    try:
        return [[int(broker) for broker in partition.split(":")] for partition in text.split(",")]
    except ValueError:
        raise BadInput(f"--replica-assignment {text}: expected brokers as in 0:1,1:2") from None
