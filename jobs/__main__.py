"""The command line: all commands by their names, and what becomes of an error."""

import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import typer

from jobs.cli import dead_letters, services, topics
from jobs.cli.analysis import backtest, explain, recommend, report, simulate
from jobs.cli.control import buckets, callback, cluster, quota_files, quotas, tenants
from jobs.cli.control.entities import LONG_FORM, EntityCommand
from jobs.cli.options import ConfigFile, Overrides
from quota.errors import MutationQuotaError

_ABOUT = "A durable, explainable admission controller for Kafka topic mutations (KIP-599)."
_BY_ENTITY: dict[str, Any] = {"cls": EntityCommand, "epilog": LONG_FORM}
_BY_FILTER: dict[str, Any] = {
    "cls": EntityCommand,
    "epilog": f"{LONG_FORM} A type without a name stands for all of it.",
}


def common(context: typer.Context, overrides: Overrides = None, config: ConfigFile = None) -> None:
    """Keep the options that precede a command; without a command, print the help."""
    context.obj = (overrides or [], config)
    _help_alone(context)


def _help_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


app = typer.Typer(
    name="mutation-quota",
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback(help=_ABOUT, invoke_without_command=True)(common)


def _group(name: str, about: str) -> Callable[..., None]:
    """Make a group of commands, which prints its help where no command is given; return what adds a command to it."""
    group = typer.Typer(rich_markup_mode=None)
    group.callback(help=about, invoke_without_command=True)(_help_alone)
    app.add_typer(group, name=name)

    def add(command: Callable[..., None], name: str | None = None, **options: Any) -> None:  # noqa: ANN401 typer's
        group.command(name, **options)(command)

    return add


add = _group("quotas", "Set quotas, and see which are set.")
add(quotas.alter, **_BY_ENTITY)
add(quotas.cancel, **_BY_ENTITY)
add(quotas.describe, **_BY_FILTER)
add(quotas.resolve)
add(quotas.history, **_BY_ENTITY)
add(quota_files.validate)
add(quota_files.apply)
add(quota_files.rollback)
add(quota_files.export)

add = _group("buckets", "See how buckets stand, forgive debts, and take buckets along to another checkpoint.")
add(buckets.list_buckets, "list")
add(buckets.reset)
add(buckets.export)

add = _group("callback", "Change the callback while the jobs run.")
add(callback.describe)
add(callback.alter)
add(callback.cancel)

add = _group("cluster", "Tell callbacks of partitions.")
add(cluster.publish)

add = _group("topics", "Create, grow and delete topics within the quotas; what is refused is not tried again (exit 3).")
add(topics.create)
add(topics.alter)
add(topics.delete)

add = _group("tenants", "Give users topics of their own for requests, so that nobody can name somebody else.")
add(tenants.prepare)

add = _group("dead-letters", "See what was no request, and send it again once it is mended.")
add(dead_letters.list_letters, "list")
add(dead_letters.show)
add(dead_letters.resend)

for command in (
    backtest.backtest,
    recommend.recommend,
    report.report,
    services.broker,
    services.enforce,
    services.audit,
    services.minutes,
    services.apply,
    simulate.simulate,
    explain.explain,
    services.run,
    services.demo,
):
    app.command()(command)


def main() -> None:
    """Run the program: an error is one line on standard error; exit 2 for bad input, 1 for all else."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a command that has no way of its own ends cleanly
    try:
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


def _fail(message: str, exit_code: int) -> None:
    print(f"mutation-quota: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(exit_code)


if __name__ == "__main__":
    main()
