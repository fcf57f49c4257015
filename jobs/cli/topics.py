"""`mutation-quota topics`: in the option names of kafka-topics.sh, each change decided first."""

from typing import Annotated, Any

import typer

from jobs.cli.options import (
    BootstrapServer,
    Client,
    Json,
    Overrides,
    User,
    checked_text,
    pair_of,
    settings_of,
    text_of,
)
from quota.errors import BadInput
from quota.settings.model import Settings

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
    names = [checked_text("topic", name) for name in topic]
    configs = dict(pair_of("config", each) for each in config or [])
    more: dict[str, Any] = {"num_partitions": partitions, "replication_factor": replication_factor}
    if replica_assignment is not None:
        if (partitions, replication_factor) != (-1, -1):
            raise BadInput("--replica-assignment says how many partitions and replicas there are: leave those out")
        assignment = _assignment(replica_assignment)
        more = {"num_partitions": len(assignment), "replica_assignment": assignment}
    settings = _settings(context, overrides, server, user, client)
    from confluent_kafka.admin import NewTopic

    from jobs.cli.topic_changes import TopicChanges

    with TopicChanges(settings, as_json=as_json) as changes:
        there = changes.existing() if if_not_exists else {}
        wanted = [NewTopic(name, **more, config=configs) for name in names if name not in there]
        changes.told(
            "created",
            changes.admin.create_topics(
                wanted, validate_only=validate_only, request_timeout=timeout, retry_on_quota_violation=False
            ),
        )


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
    assignment = None if replica_assignment is None else _assignment(replica_assignment)
    settings = _settings(context, overrides, server, user, client)
    from confluent_kafka.admin import NewPartitions

    from jobs.cli.topic_changes import TopicChanges

    with TopicChanges(settings, as_json=as_json) as changes:
        wanted = [
            NewPartitions(name, partitions, *([] if assignment is None else [assignment[current:]]))
            for name, current in changes.matching(topic, none_is_fine=if_exists).items()
        ]
        changes.told(
            "altered",
            changes.admin.create_partitions(
                wanted, validate_only=validate_only, request_timeout=timeout, retry_on_quota_violation=False
            ),
        )


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
    settings = _settings(context, overrides, server, user, client)
    from jobs.cli.topic_changes import TopicChanges

    with TopicChanges(settings, as_json=as_json) as changes:
        names = list(changes.matching(topic, none_is_fine=if_exists))
        changes.told(
            "deleted", changes.admin.delete_topics(names, request_timeout=timeout, retry_on_quota_violation=False)
        )


def _settings(
    context: typer.Context, overrides: list[str] | None, server: str | None, user: str | None, client: str | None
) -> Settings:
    """The settings, with who asks; a file is named before the command, where --config is not a topic's."""
    settings = settings_of(context, overrides, None, server)
    given = {"user": text_of("user", user), "client_id": text_of("client", client)}
    who = {name: value for name, value in given.items() if value is not None}
    return settings.model_copy(update={"client": settings.client.model_copy(update=who)})


def _assignment(text: str) -> list[list[int]]:
    """Brokers as kafka-topics.sh takes them: those of a partition by colons, partitions by commas."""
    try:
        return [[int(broker) for broker in partition.split(":")] for partition in text.split(",")]
    except ValueError:
        raise BadInput(f"--replica-assignment {text}: expected brokers as in 0:1,1:2") from None
