"""The advice on options that a command does not have."""

import pytest
import typer
from typer.main import get_command

from jobs.__main__ import app
from jobs.cli.program.usage_errors import usage_message


def commands(group, *names):
    """Yield the names of each command below a group, and the command."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        else:
            yield (*names, name), command


WITHOUT_CLUSTER = [
    names
    for names, command in commands(get_command(app))
    if not any("--bootstrap-server" in each.opts for each in command.params)
]


@pytest.mark.parametrize("names", WITHOUT_CLUSTER, ids=" ".join)
def test_a_command_that_takes_no_servers_says_why(names):
    with pytest.raises(typer.TyperException) as raised:
        get_command(app).main([*names, "--bootstrap-server", "b:1"], standalone_mode=False, prog_name="mutation-quota")
    message = usage_message(raised.value)
    assert message.startswith(f"No such option: --bootstrap-server; {' '.join(names)} ")
    assert any(
        reason in message for reason in ("reads storage.root", "connects to no cluster", "starts its own cluster")
    )
