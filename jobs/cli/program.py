"""The command line `mutation-quota`: all commands by name, their help, and errors as one line."""

import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from jobs.cli import (
    backtest,
    buckets,
    callback,
    capacity,
    config,
    dead_letters,
    decisions,
    maintain,
    observe,
    recommend,
    report,
    services,
    simulate,
    status,
    user_topics,
)
from jobs.cli.groups import SingleValuesCommand, SingleValuesGroup, usage_message, with_groups
from jobs.cli.options import Overrides, SettingsFile, Verbose
from jobs.cli.quotas import cluster as cluster_quotas
from jobs.cli.quotas import commands as quotas
from jobs.cli.quotas import files as quota_files
from jobs.cli.quotas import resolve as quota_resolve
from jobs.cli.quotas.kafka_configs import EntityCommand
from jobs.installation import missing_package, version_lines
from jobs.log_lines import log_verbosely, logs_as_json, start_log
from jobs.signals import exit_interrupted, watch_interrupts
from quota.errors import BadInput, MutationQuotaError
from quota.text import escaped

_NAME = "mutation-quota"

_log = logging.getLogger("jobs")

Command: TypeAlias = Callable[..., None]

EXIT_CODES = {
    0: "success",
    1: "an error; status: there is a problem",
    2: "bad input: an argument, option, setting or file",
    3: "quotas drift, and apply, rollback, pull and push with --dry-run: there are differences",
    4: "nothing found: what the command names or selects does not exist",
    130: "interrupted",
}

EXIT_CODES_HELP = "\n\n".join(["Exit codes:", *(f"{code}: {meaning}" for code, meaning in EXIT_CODES.items())])
"""The last lines of the help of the program."""

COMMON_OPTIONS_HELP = "Common options, such as --set and --verbose, come after the command; its own --help lists them."
"""The last line of the help of a group."""

_EXAMPLES = "\nExamples:\n"
_PARAGRAPHS = re.compile(r"\n\s*\n")


@dataclass(frozen=True, slots=True)
class Group:
    """A group of commands."""

    about: str
    commands: Mapping[str, Command]


SECTIONS: Mapping[str, Mapping[str, Command | Group]] = {
    "Services": {
        "enforce": services.enforce,
        "audit": services.audit,
        "applier": services.applier,
        "gateway": services.gateway,
    },
    "Quotas": {
        "quotas": Group(
            "Alter, describe and resolve quotas.",
            {
                "alter": quotas.alter,
                "cancel": quotas.cancel,
                "describe": quotas.describe,
                "resolve": quota_resolve.resolve,
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
        "buckets": Group(
            "List, describe, reset and export token buckets.",
            {
                "list": buckets.list_buckets,
                "describe": buckets.describe,
                "reset": buckets.reset,
                "export": buckets.export,
            },
        ),
        "callback": Group(
            "Show and change the quota callback (KIP-257).",
            {
                "describe": callback.describe,
                "alter": callback.alter,
                "cancel": callback.cancel,
                "publish-metadata": callback.publish_metadata,
            },
        ),
    },
    "Topics": {
        "user-topics": Group("Create request topics for single users.", {"prepare": user_topics.prepare}),
    },
    "Inspect": {
        "dashboard": services.dashboard,
        "status": status.status,
        "config": Group("Show the settings in force, and check them.", {"describe": config.describe}),
        "explain": decisions.explain,
        "report": report.report,
        "decisions": Group(
            "List and sum the decisions that the audit has stored.",
            {"list": decisions.list_decisions, "top": decisions.top},
        ),
        "maintain": maintain.maintain,
        "dead-letters": Group(
            "List, describe and resend invalid requests.",
            {"list": dead_letters.list_letters, "describe": dead_letters.describe, "resend": dead_letters.resend},
        ),
    },
    "Plan": {
        "observe": Group(
            "Read what clients do from the brokers' request logs.",
            {
                "import": observe.import_,
                "follow": observe.follow,
                "snapshot": observe.snapshot,
            },
        ),
        "simulate": simulate.simulate,
        "backtest": backtest.backtest,
        "recommend": recommend.recommend,
        "capacity": capacity.capacity,
    },
    "Try": {"run": services.run, "demo": services.demo, "broker": services.broker},
}
"""The commands and groups by name, for each panel of the help."""


_LONG_FORM = {quotas.alter, quotas.cancel, quotas.describe, quotas.history}
"""The commands that also take kafka-configs.sh's long form of an entity."""


def main() -> None:
    """Run the program: an error is one line on standard error, and its exit code as in `EXIT_CODES`."""
    try:
        _replace_closed_streams()
        watch_interrupts()
        start_log(_NAME)
        _check_encoding(sys.argv[1:])
        sys.exit(app(standalone_mode=False, prog_name=_NAME))
    except MutationQuotaError as error:
        _fail(str(error), error.exit_code, error)
    except typer.TyperException as error:
        _fail(usage_message(error), error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        exit_interrupted()
    except OSError as error:
        # An OSError of a library may have only a text.
        _fail(f"{error.filename or 'input or output'}: {error.strerror or error}", 1)
    except Exception as error:  # noqa: BLE001 any error is one line
        if missing := missing_package(error):
            _fail(str(missing), missing.exit_code, missing)
        _fail(f"unexpected {type(error).__name__}: {error} (-v prints the traceback)", 1, error)


def _replace_closed_streams() -> None:
    """Open the null device as each standard stream that is closed: otherwise a socket or a file gets its descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 until the exit


def _check_encoding(arguments: Sequence[str]) -> None:
    """Check that all arguments are UTF-8, because they may become part of a record."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise BadInput(f"argument {argument!r}: not UTF-8") from None


def _fail(message: str, exit_code: int, error: Exception | None = None) -> None:
    line = escaped(" ".join(message.split()))  # which may quote an argument
    if logs_as_json():
        known: dict[str, Any] = {"error": type(error).__name__} if error else {}
        if isinstance(error, MutationQuotaError):
            fields = {"query": error.query, "batch": error.batch}
            known |= {name: value for name, value in fields.items() if value is not None}
        expected = isinstance(error, MutationQuotaError) or error is None
        _log.error("%s", line, extra=known, exc_info=not expected or _log.isEnabledFor(logging.DEBUG))
    else:
        _log.debug("Traceback of the error:", exc_info=True)
        print(f"mutation-quota: {line}", file=sys.stderr)
    sys.exit(exit_code)


class _Program(SingleValuesGroup):
    """The program, whose help has the panels and their commands in this file's order."""

    def list_commands(self, _: object) -> list[str]:
        return [name for commands in SECTIONS.values() for name in commands]


def _build_app() -> typer.Typer:
    built = typer.Typer(
        name=_NAME,
        cls=_Program,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=EXIT_CODES_HELP,
    )
    about = "A durable, explainable admission controller for Kafka topic mutations (KIP-599)."
    built.callback(help=about, invoke_without_command=True)(_store_global_options)
    for panel, commands in SECTIONS.items():
        for name, command in commands.items():
            if isinstance(command, Group):
                group = typer.Typer(cls=SingleValuesGroup, rich_markup_mode="rich", epilog=COMMON_OPTIONS_HELP)
                group.callback(help=command.about, invoke_without_command=True)(_require_command)
                for inner, function in command.commands.items():
                    _add_command(group, inner, function)
                built.add_typer(group, name=name, rich_help_panel=panel)
            else:
                _add_command(built, name, command, panel)
    return built


def _add_command(to: typer.Typer, name: str, command: Command, panel: str | None = None) -> None:
    text, examples = _split_docstring(command)
    cls = EntityCommand if command in _LONG_FORM else SingleValuesCommand
    to.command(name, cls=cls, help=text, epilog=examples, rich_help_panel=panel)(with_groups(command))


def _split_docstring(command: Command) -> tuple[str, str | None]:
    """Return the help of a command and its epilog, whose paragraphs are the examples, from its docstring."""
    text, heading, examples = (inspect.getdoc(command) or "").partition(_EXAMPLES)
    lines = [line.strip() for line in examples.splitlines()]
    paragraphs = map(_joined, _PARAGRAPHS.split(text.strip()))
    return "\n\n".join(paragraphs), "\n\n".join([heading.strip(), *lines]) if heading else None


def _joined(paragraph: str) -> str:
    """Return a paragraph as one line, because Typer keeps its line breaks; one with indented lines stays."""
    _, *others = paragraph.splitlines()
    return paragraph if any(line.startswith(" ") for line in others) else " ".join(paragraph.split())


def _print_version(requested: bool) -> None:
    if requested:
        for line in version_lines():
            print(line)
        raise typer.Exit


def _store_global_options(
    context: typer.Context,
    overrides: Overrides = None,
    settings_file: SettingsFile = None,
    verbose: Verbose = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print all versions and exit.")
    ] = False,
) -> None:
    """Store the options that precede a command, for `SettingsOptions.read`."""
    del version  # it has been printed
    if verbose:
        log_verbosely()
    context.obj = (overrides or [], settings_file)
    _require_command(context)


def _require_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        with redirect_stdout(sys.stderr):  # where Typer prints the help itself
            context.get_help()
        raise typer.Exit(BadInput.exit_code)


app = _build_app()
