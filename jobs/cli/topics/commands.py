"""`mutation-quota topics`: changes topics like kafka-topics.sh, if the quotas admit the change."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from jobs.cli.options import ChargedUser, Client, ConfirmOptions, TargetOptions, TopicPattern, parse_pair
from jobs.cli.output import OutputOptions, print_table
from jobs.cli.wording import format_number
from quota.errors import BadInput
from quota.settings import Settings
from quota.text import plural
from schemas.documents.topics import ListedTopic, Topics

Pattern = Annotated[
    str,
    typer.Option("--topic", metavar="REGEX", help="Regular expression for topic names; separate several with commas."),
]
OptionalPattern = Annotated[
    str | None,
    typer.Option(
        "--topic", metavar="REGEX", help="Topics by a regular expression; several separated by commas. All by default."
    ),
]
Assignment = Annotated[
    str | None,
    typer.Option("--replica-assignment", metavar="0:1,1:2", help="Broker ids of the replicas of each partition."),
]
IfExists = Annotated[bool, typer.Option("--if-exists", help="Do nothing if no topic matches.")]
ValidateOnly = Annotated[bool, typer.Option("--validate-only", help="Only validate the request; it is not charged.")]
_COLUMNS = ("TOPIC", "PARTITIONS", "REPLICAS", "STATE")
_MAX_PARTITIONS, _MAX_REPLICAS = 2**31 - 1, 2**15 - 1
"""The largest numbers that Kafka's protocol can represent."""


def _count_or_default(most: int) -> Callable[[int], int]:
    """Return a check of a number that is -1, or from 1 to `most`."""

    def check(number: int) -> int:
        if number != -1 and not 1 <= number <= most:
            raise typer.BadParameter(f"{number}: expected -1, or 1 to {most}")
        return number

    return check


def list_topics(topic: OptionalPattern = None, *, output: OutputOptions, kafka: TargetOptions) -> None:
    """List topics with their partitions and replicas.

    Reads the cluster of kafka.target_servers, by default the one with the request topic.

    Examples:
      mutation-quota topics list
      mutation-quota topics list --topic 'orders-.*' --output jsonl
    """
    pattern = TopicPattern.parse(".*" if topic is None else topic)
    settings = kafka.read()
    from quota.kafka.topics.topic_admin import TopicAdmin

    layouts = TopicAdmin(settings.target_connection, settings.kafka.timeout_seconds).layout().topics.values()
    topics = [
        ListedTopic(
            layout.name, len(layout.partitions), layout.replication_factor, layout.leaderless, layout.under_replicated
        )
        for layout in layouts
        if pattern.matches(layout.name)
    ]

    def table() -> None:
        cells = [
            [topic.name, f"{topic.partition_count:,}", str(topic.replication_factor), _state(topic)] for topic in topics
        ]
        print_table(_COLUMNS, cells, numbers=_COLUMNS[1:3], sentences=_COLUMNS[3:])

    none = f"no topic matches {topic} on {settings.target_connection}" if topic is not None else "no topics"
    output.print_found(Topics(topics), table, items="topics", none=none, selected=topic is not None)


def create(
    topic: Annotated[list[str], typer.Option("--topic", metavar="NAME", help="Topic name. Repeatable.")],
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions",
            metavar="N",
            callback=_count_or_default(_MAX_PARTITIONS),
            help="Partitions of each topic; -1 for the cluster's default.",
        ),
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor",
            metavar="N",
            callback=_count_or_default(_MAX_REPLICAS),
            help="Replicas of each partition; -1 for the cluster's default.",
        ),
    ] = -1,
    replica_assignment: Assignment = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="Topic config. Repeatable.")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Skip topics that exist.")] = False,
    validate_only: ValidateOnly = False,
    user: ChargedUser = None,
    client: Client = None,
    *,
    output: OutputOptions,
    kafka: TargetOptions,
) -> None:
    """Create topics.

    Takes the options of kafka-topics.sh. A topic that the quota rejects is not retried (exit code 3).

    Examples:
      mutation-quota topics create --topic orders --partitions 12
      mutation-quota topics create --topic a --topic b --config retention.ms=60000
    """
    configs = dict(parse_pair("config", pair) for pair in config or [])
    layout: dict[str, Any] = {"num_partitions": partitions, "replication_factor": replication_factor}
    if replica_assignment is not None:
        if (partitions, replication_factor) != (-1, -1):
            raise BadInput("--replica-assignment excludes --partitions and --replication-factor, which it determines")
        assignment = _parse_assignment(replica_assignment)
        layout = {"num_partitions": len(assignment), "replica_assignment": assignment}
    settings = _client_settings(kafka, user, client)
    from confluent_kafka.admin import NewTopic

    from jobs.cli.topics.changes import TopicChanges

    with TopicChanges(settings, output) as changes:
        existing = changes.partition_counts() if if_not_exists else {}
        for name in topic:
            if name in existing:
                changes.skip(f"topic {name} exists")
        new_topics = [NewTopic(name, **layout, config=configs) for name in topic if name not in existing]
        futures = changes.admin.create_topics(new_topics, validate_only=validate_only, retry_on_quota_violation=False)
        changes.report("valid" if validate_only else "created", futures)


def alter(
    topic: Pattern,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions", min=1, max=_MAX_PARTITIONS, metavar="N", help="New number of partitions of each topic."
        ),
    ],
    replica_assignment: Assignment = None,
    if_exists: IfExists = False,
    validate_only: ValidateOnly = False,
    user: ChargedUser = None,
    client: Client = None,
    *,
    output: OutputOptions,
    kafka: TargetOptions,
) -> None:
    """Add partitions to topics.

    `--replica-assignment` must list existing partitions, too. Internal topics, and those of this program, are altered
    only by their exact names. A topic that the quota rejects is not retried (exit code 3).

    Examples:
      mutation-quota topics alter --topic orders --partitions 24
      mutation-quota topics alter --topic 'logs-.*' --partitions 8 --validate-only
    """
    pattern = TopicPattern.parse(topic)
    assignment = None if replica_assignment is None else _parse_assignment(replica_assignment)
    settings = _client_settings(kafka, user, client)
    from confluent_kafka.admin import NewPartitions

    from jobs.cli.topics.changes import TopicChanges

    with TopicChanges(settings, output) as changes:
        new_partitions = [
            NewPartitions(name, partitions, *([] if assignment is None else [assignment[current:]]))
            for name, current in changes.matching(pattern, allow_none=if_exists).items()
        ]
        futures = changes.admin.create_partitions(
            new_partitions, validate_only=validate_only, retry_on_quota_violation=False
        )
        changes.report("valid" if validate_only else "altered", futures)


def delete(
    topic: Pattern,
    if_exists: IfExists = False,
    user: ChargedUser = None,
    client: Client = None,
    *,
    confirmation: ConfirmOptions,
    output: OutputOptions,
    kafka: TargetOptions,
) -> None:
    """Delete topics.

    Asks for confirmation, with the names of the topics. Internal topics, and those of this program, are deleted only by
    their exact names. A topic that the quota rejects is not retried (exit code 3).

    Examples:
      mutation-quota topics delete --topic 'orders-.*' --dry-run
      mutation-quota topics delete --topic orders --yes
    """
    pattern = TopicPattern.parse(topic)
    confirmation.check(output)
    settings = _client_settings(kafka, user, client)
    from jobs.cli.topics.changes import TopicChanges

    with TopicChanges(settings, output) as changes:
        names = list(changes.matching(pattern, allow_none=if_exists))
        if confirmation.dry_run:
            changes.preview("deleted", names)
            return
        if names:
            confirmation.confirm(f"Delete {plural(len(names), 'topic')} with all records ({', '.join(names)})?")
        futures = changes.admin.delete_topics(names, retry_on_quota_violation=False)
        changes.report("deleted", futures)


def _client_settings(kafka: TargetOptions, user: str | None, client: str | None) -> Settings:
    settings = kafka.read()
    options = {"user": user, "client_id": client}
    for option, value in (("user", user), ("client", client)):
        if value is not None and not value.strip():
            raise BadInput(f"--{option}: the name is empty; leave the option out for the one in the settings")
    given = {name: value for name, value in options.items() if value is not None}
    return settings.model_copy(update={"client": settings.client.model_copy(update=given)})


def _parse_assignment(text: str) -> list[list[int]]:
    """Parse the brokers of partitions: partitions are separated by commas, the brokers of one by colons."""
    try:
        return [[int(broker) for broker in partition.split(":")] for partition in text.split(",")]
    except ValueError:
        raise BadInput(f"--replica-assignment {text}: expected broker ids as in 0:1,1:2") from None


def _state(topic: ListedTopic) -> str:
    states = []
    if topic.leaderless:
        states.append(f"{plural(topic.leaderless, 'partition')} without a leader")
    if topic.under_replicated:
        states.append(f"{format_number(topic.under_replicated)} under-replicated")
    return ", ".join(states) or "ok"
