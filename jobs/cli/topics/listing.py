"""`mutation-quota topics list`: shows the target cluster's topics."""

from typing import Annotated

import typer

from jobs.cli.options import TargetOptions, TopicPattern
from jobs.cli.output import OutputOptions, print_table
from jobs.cli.wording import format_number
from quota.errors import NotFound
from quota.text import plural
from schemas.documents.topics import ListedTopic, Topics

Pattern = Annotated[
    str | None,
    typer.Option(
        "--topic", metavar="REGEX", help="Topics by a regular expression; several separated by commas. All by default."
    ),
]

_ALL = ".*"


def list_topics(topic: Pattern = None, *, output: OutputOptions, kafka: TargetOptions) -> None:
    """List topics with their partitions and replicas.

    Reads the cluster of kafka.target_servers, by default the one with the request topic.

    Examples:
      mutation-quota topics list
      mutation-quota topics list --topic 'orders-.*' --output jsonl
    """
    pattern = TopicPattern.parse(_ALL if topic is None else topic)
    settings = kafka.read()
    from quota.kafka.topics.topic_admin import TopicAdmin

    found = TopicAdmin(settings.target_connection, settings.kafka.timeout_seconds).layout().topics.values()
    topics = [
        ListedTopic(each.name, len(each.partitions), each.replication_factor, each.leaderless, each.under_replicated)
        for each in found
        if pattern.matches(each.name)
    ]
    if topic is not None and not topics:
        raise NotFound(f"no topic matches {topic} on {settings.target_connection}")

    def table() -> None:
        if topics:
            cells = [
                [each.name, f"{each.partition_count:,}", str(each.replication_factor), _state(each)] for each in topics
            ]
            print_table(("TOPIC", "PARTITIONS", "REPLICAS", "STATE"), cells, numbers=("PARTITIONS", "REPLICAS"))
        else:
            print("No topics.")

    output.print(Topics(topics), table, items="topics")


def _state(topic: ListedTopic) -> str:
    states = []
    if topic.leaderless:
        states.append(f"{plural(topic.leaderless, 'partition')} without a leader")
    if topic.under_replicated:
        states.append(f"{format_number(topic.under_replicated)} under-replicated")
    return ", ".join(states) or "ok"
