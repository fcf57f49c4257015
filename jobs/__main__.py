"""The command line `mutation-quota`: all commands by name, and errors as one line."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import typer

from jobs.cli import dead_letters, decisions, observe, services, topics
from jobs.cli.analysis import backtest, explain, recommend, report, simulate
from jobs.cli.control import buckets, callback, cluster, cluster_quotas, quota_files, quotas, tenants
from jobs.cli.control.entities import EntityCommand
from jobs.cli.groups import with_groups
from jobs.cli.options import ConfigFile, Overrides
from quota.errors import BadInput, MutationQuotaError

Command: TypeAlias = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Group:
    """A group of commands."""

    name: str
    about: str
    commands: dict[str, Command]


GROUPS = (
    Group(
        "quotas",
        "Set quotas, and see which are set.",
        {
            "alter": quotas.alter,
            "cancel": quotas.cancel,
            "describe": quotas.describe,
            "resolve": quotas.resolve,
            "history": quotas.history,
            "validate": quota_files.validate,
            "apply": quota_files.apply,
            "rollback": quota_files.rollback,
            "export": quota_files.export,
            "push": cluster_quotas.push,
            "pull": cluster_quotas.pull,
            "drift": cluster_quotas.drift,
        },
    ),
    Group(
        "buckets",
        "See how buckets stand, forgive debts, and take buckets along to another checkpoint.",
        {"list": buckets.list_buckets, "reset": buckets.reset, "export": buckets.export},
    ),
    Group(
        "callback",
        "Change the callback while the jobs run.",
        {"describe": callback.describe, "alter": callback.alter, "cancel": callback.cancel},
    ),
    Group(
        "observe",
        "Find out what clients do to a cluster, by its brokers' request logs, before anything is changed.",
        {"import": observe.import_, "follow": observe.follow, "compare": observe.compare, "snapshot": observe.snapshot},
    ),
    Group("cluster", "Tell callbacks of partitions.", {"publish": cluster.publish}),
    Group(
        "topics",
        "Create, grow and delete topics within the quotas; what is refused is not tried again (exit 3).",
        {"create": topics.create, "alter": topics.alter, "delete": topics.delete},
    ),
    Group(
        "tenants",
        "Give users topics of their own for requests, so that nobody can name somebody else.",
        {"prepare": tenants.prepare},
    ),
    Group("decisions", "List the decisions that the audit has kept.", {"list": decisions.list_decisions}),
    Group(
        "dead-letters",
        "See what was no request, and send it again once it is mended.",
        {"list": dead_letters.list_letters, "show": dead_letters.show, "resend": dead_letters.resend},
    ),
)

COMMANDS: dict[str, Command] = {
    "backtest": backtest.backtest,
    "recommend": recommend.recommend,
    "report": report.report,
    "broker": services.broker,
    "enforce": services.enforce,
    "audit": services.audit,
    "minutes": services.minutes,
    "apply": services.apply,
    "gateway": services.gateway,
    "simulate": simulate.simulate,
    "explain": explain.explain,
    "run": services.run,
    "demo": services.demo,
}
"""The commands outside of groups."""

_LONG_FORM = {quotas.alter, quotas.cancel, quotas.describe, quotas.history}
"""The commands that also take kafka-configs.sh's long form of an entity."""


def main() -> None:
    """Run the program: an error is one line on standard error; exit 2 for bad input, 1 for other errors."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # commands without a handler of their own clean up too
    try:
        _check_encoding(sys.argv[1:])
        sys.exit(app(standalone_mode=False))
    except MutationQuotaError as error:
        _fail(str(error), error.exit_code)
    except typer.TyperException as error:
        _fail(error.format_message(), error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except OSError as error:
        _fail(f"{error.filename or 'input or output'}: {error.strerror}", 1)
    except Exception as error:
        if os.environ.get("MUTATION_QUOTA_TRACEBACK"):
            raise
        _fail(f"unexpected {type(error).__name__}: {error} (MUTATION_QUOTA_TRACEBACK=1 shows where)", 1)


def _check_encoding(arguments: Sequence[str]) -> None:
    """Check that all arguments are UTF-8, as everything must be that ends up in a record."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise BadInput(f"argument {argument!r}: not UTF-8") from None


def _fail(message: str, exit_code: int) -> None:
    print(f"mutation-quota: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(exit_code)


def _build_app() -> typer.Typer:
    """Build the Typer app with all commands."""
    built = typer.Typer(
        name="mutation-quota",
        rich_markup_mode=None,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    about = "A durable, explainable admission controller for Kafka topic mutations (KIP-599)."
    built.callback(help=about, invoke_without_command=True)(_store_global_options)
    _add_commands(built, COMMANDS)
    for group in GROUPS:
        commands = typer.Typer(rich_markup_mode=None)
        commands.callback(help=group.about, invoke_without_command=True)(_print_help_without_command)
        _add_commands(commands, group.commands)
        built.add_typer(commands, name=group.name)
    return built


def _add_commands(to: typer.Typer, commands: dict[str, Command]) -> None:
    for name, command in commands.items():
        to.command(name, cls=EntityCommand if command in _LONG_FORM else None)(with_groups(command))


def _store_global_options(context: typer.Context, overrides: Overrides = None, config: ConfigFile = None) -> None:
    """Store the options that precede a command, for `read_settings`."""
    context.obj = (overrides or [], config)
    _print_help_without_command(context)


def _print_help_without_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


app = _build_app()

if __name__ == "__main__":
    main()
