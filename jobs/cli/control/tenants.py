"""`mutation-quota tenants`: topics of their own for users' requests (topics.identity=topic)."""

import shlex
from typing import Annotated

import typer

from jobs.cli.options import BootstrapServer, ConfigFile, Overrides, settings_of
from quota.errors import BadInput


def prepare(
    context: typer.Context,
    user: Annotated[list[str], typer.Option("--user", metavar="NAME", help="A principal; may be given several times.")],
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Make the topics of users, or set right those that are there, and print who has to be allowed to write to them.

    The jobs take up a topic that is new while they run.
    """
    settings = settings_of(context, overrides, config, server)
    if settings.topics.by_users is None:
        raise BadInput("topics.identity is payload: users have no topics of their own; set topics.identity=topic")
    from quota.kafka.topics.user_topics import UserTopics

    for name, topic in UserTopics(settings).prepare(user).items():
        print(f"Topic {topic} is ready: who may write to it is {name}. Let nobody else, by")
        print(f"  {acl_line(settings.kafka.bootstrap_servers, name, topic)}")


def acl_line(servers: str, user: str, topic: str) -> str:
    """What lets a user write to their topic: literally this one, because a prefix would cover other users' too."""
    return shlex.join(
        [
            *("kafka-acls.sh", "--bootstrap-server", servers, "--add", "--allow-principal", f"User:{user}"),
            *("--operation", "Write", "--operation", "Describe", "--topic", topic),
            *("--resource-pattern-type", "literal"),
        ]
    )
