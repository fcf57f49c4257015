"""`mutation-quota user-topics`: the request topics of users (topics.identity=topic)."""

import shlex
from typing import Annotated

import typer

from jobs.cli.options import KafkaOptions
from jobs.cli.output import OutputOptions
from jobs.cli.quotas.kafka_configs import connection_options
from quota.errors import BadInput
from quota.settings.sections import KafkaSettings
from schemas.documents.quotas import PreparedTopics, UserTopic


def prepare(
    user: Annotated[list[str], typer.Option("--user", metavar="NAME", help="User principal. Repeatable.")],
    *,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Create the request topics of users.

    Creates a topic for each user, or corrects the configs of an existing one, and prints the kafka-acls.sh command that
    lets only this user write to it. Running jobs pick up a new topic. Requires topics.identity=topic.

    Examples:
      mutation-quota user-topics prepare --user alice --set topics.identity=topic
      mutation-quota user-topics prepare --user bob --command-config ops.properties
    """
    settings = kafka.read()
    if settings.topics.user_topic_prefix is None:
        raise BadInput("users do not have their own topics (topics.identity=payload): set topics.identity=topic")
    from quota.kafka.topics import preparation

    user_topics = [
        UserTopic(name, topic, acl_line(settings.kafka, name, topic))
        for name, topic in preparation.UserTopics(settings).prepare(user).items()
    ]

    def lines() -> None:
        for user_topic in user_topics:
            print(f"Topic {user_topic.topic} is ready. Allow only {user_topic.user} to write to it:")
            print(f"  {user_topic.acl}")

    output.print(PreparedTopics(user_topics), lines, items="topics")


def acl_line(kafka: KafkaSettings, user: str, topic: str) -> str:
    """Return the command that lets a user write only to their own topic."""
    return shlex.join(
        [
            *("kafka-acls.sh", *connection_options(kafka), "--add", "--allow-principal", f"User:{user}"),
            *("--operation", "Write", "--operation", "Describe", "--topic", topic),
            *("--resource-pattern-type", "literal"),
        ]
    )
