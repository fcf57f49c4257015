"""`mutation-quota topics list` and `describe`: shows the target cluster's topics, and the cost of changing them."""

from typing import Annotated

import typer

from jobs.cli.options import Client, TargetOptions, TopicPattern, User
from jobs.cli.output import OutputOptions, print_table
from jobs.cli.program.wording import format_number
from quota.errors import NotFound
from quota.text import plural
from schemas.documents.described_topics import DescribedTopics, ListedTopic, Topics

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
    from quota.kafka.topics.layouts import LayoutReader

    found = LayoutReader(settings.target_connection, settings.kafka.timeout_seconds).cluster().topics.values()
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


def describe(
    topic: Pattern = None,
    user: User = None,
    client: Client = None,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Print all partitions, not only those with a problem.")
    ] = False,
    *,
    output: OutputOptions,
    kafka: TargetOptions,
) -> None:
    """Describe topics, and what changing them costs.

    Reads the cluster of kafka.target_servers, by default the one with the request topic. With --user or --client, also
    shows the quota that is charged, and how long a full bucket is in debt after a deletion. The table has the
    partitions that have no leader or are under-replicated; JSON has all partitions.

    Examples:
      mutation-quota topics describe --topic orders --partitions
      mutation-quota topics describe --topic 'orders-.*' --user alice --client app
    """
    pattern = TopicPattern.parse(_ALL if topic is None else topic)
    settings = kafka.read()
    from jobs.cli.overview.topic_costs import charged_quota, described_topic
    from jobs.cli.overview.topic_text import print_described
    from quota.kafka.topics.layouts import LayoutReader

    reader = LayoutReader(settings.target_connection, settings.kafka.timeout_seconds)
    found = {name: each for name, each in reader.cluster().topics.items() if pattern.matches(name)}
    if topic is not None and not found:
        raise NotFound(f"no topic matches {topic} on {settings.target_connection}")
    charged = None if user is None and client is None else charged_quota(settings, user, client)
    ids = reader.ids(found)
    configs, _ = reader.configs(found)
    described = [described_topic(each, ids[name], configs.get(name), charged) for name, each in found.items()]
    document = DescribedTopics(charged.document if charged else None, described)
    output.print(document, lambda: print_described(document, all_partitions=partitions), items="topics")


def _state(topic: ListedTopic) -> str:
    states = []
    if topic.leaderless:
        states.append(f"{plural(topic.leaderless, 'partition')} without a leader")
    if topic.under_replicated:
        states.append(f"{format_number(topic.under_replicated)} under-replicated")
    return ", ".join(states) or "ok"
