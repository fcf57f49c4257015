"""`mutation-quota tenants`: the request topics of users (topics.identity=topic)."""

import shlex
from typing import Annotated

import typer

from jobs.cli.options import BootstrapServer, ConfigFile, Overrides, read_settings
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
    settings = read_settings(context, overrides, config, server)
    if settings.topics.by_users is None:
        raise BadInput("topics.identity is payload: users have no topics of their own; set topics.identity=topic")
    from quota.kafka.topics.user_topics import UserTopics

    for name, topic in UserTopics(settings).prepare(user).items():
        print(f"Topic {topic} is ready: who may write to it is {name}. Let nobody else, by")
        print(f"  {acl_line(settings.kafka.bootstrap_servers, name, topic)}")


def acl_line(servers: str, user: str, topic: str) -> str:
    """Return the command that lets a user write to their topic, and to no other whose name begins like it."""
    return shlex.join(
        [
            *("kafka-acls.sh", "--bootstrap-server", servers, "--add", "--allow-principal", f"User:{user}"),
            *("--operation", "Write", "--operation", "Describe", "--topic", topic),
            *("--resource-pattern-type", "literal"),
        ]
    )
