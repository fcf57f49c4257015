"""The command line: parses, calls and prints."""

import logging
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli import dead_letters as cli_dead_letters
from jobs.cli import topics as cli_topics
from jobs.cli.analysis import backtest as cli_backtest
from jobs.cli.analysis import recommend as cli_recommend
from jobs.cli.analysis import report as cli_report
from jobs.cli.control import buckets as cli_buckets
from jobs.cli.control import callback as cli_callback
from jobs.cli.control import cluster as cli_cluster
from jobs.cli.control import quotas as cli_quotas
from jobs.cli.control import tenants as cli_tenants
from jobs.cli.options import BootstrapServer, ConfigFile, Json, Overrides, settings_of
from quota.algorithms.registry import AlgorithmName
from quota.errors import BadInput, MutationQuotaError

app = typer.Typer(
    name="mutation-quota",
    help="A durable, explainable admission controller for Kafka topic mutations (KIP-599).",
    invoke_without_command=True,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(cli_quotas.app, name="quotas")
app.add_typer(cli_buckets.app, name="buckets")
app.add_typer(cli_callback.app, name="callback")
app.add_typer(cli_cluster.app, name="cluster")
app.add_typer(cli_topics.app, name="topics")
app.add_typer(cli_tenants.app, name="tenants")
app.add_typer(cli_dead_letters.app, name="dead-letters")
app.command()(cli_backtest.backtest)
app.command()(cli_recommend.recommend)
app.command(name="report")(cli_report.report)

Once = Annotated[bool, typer.Option("--once", help="Work off what is there, and end.")]


@app.callback()
def common(context: typer.Context, overrides: Overrides = None, config: ConfigFile = None) -> None:
    """A durable, explainable admission controller for Kafka topic mutations (KIP-599)."""
    context.obj = (overrides or [], config)
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def broker(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")] = 9092,
    data: Annotated[Path | None, typer.Option(help="The folder of its data; <storage.root>/broker by default.")] = None,
    overrides: Overrides = None,
    config: ConfigFile = None,
) -> None:
    """Run a real single-node Kafka for trying and testing, with the topics made; Ctrl-C ends it."""
    from jobs.sandbox.embedded import embedded_broker
    from jobs.spark.queries import stop_signals

    settings = settings_of(context, overrides, config)
    with stop_signals() as stop, embedded_broker(settings, port, data) as running:
        print(f"ready {running.address}", flush=True)
        while not stop.is_set():
            running.check()
            stop.wait(0.2)


@app.command()
def enforce(
    context: typer.Context,
    once: Once = False,
    begin_anew: Annotated[
        bool, typer.Option("--begin-anew", help="With full buckets and the oldest requests; sets the checkpoint aside.")
    ] = False,
    buckets: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Begin anew with these, of buckets export, and behind what they know."),
    ] = None,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Decide mutation requests: from the request topic to decisions and dead letters."""
    if buckets and not begin_anew:
        raise BadInput(f"--buckets {buckets}: only with --begin-anew, which sets the checkpoint aside")
    from jobs.services.enforce import run_enforce

    run_enforce(settings_of(context, overrides, config, server), once=once, anew=begin_anew, buckets=buckets)


@app.command()
def audit(
    context: typer.Context,
    once: Once = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Keep decisions, dead letters and quota changes in Delta tables."""
    from jobs.services.enforce import run_audit

    run_audit(settings_of(context, overrides, config, server), once=once)


@app.command()
def minutes(context: typer.Context, once: Once = False, overrides: Overrides = None, config: ConfigFile = None) -> None:
    """Add up each tenant's decisions by the minute in a Delta table, from what the audit keeps."""
    from jobs.services.enforce import run_minutes

    run_minutes(settings_of(context, overrides, config), once=once)


@app.command()
def apply(
    context: typer.Context,
    once: Once = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Carry out on the cluster what was admitted, each topic once, and tell of it on the results topic.

    One of a group works at a time: the latest that was started.
    """
    from jobs.services.apply import run_apply

    run_apply(settings_of(context, overrides, config, server), once=once)


@app.command()
def simulate(
    context: typer.Context,
    requests: Annotated[
        str, typer.Argument(metavar="REQUESTS", help="JSON lines, each with a timestamp; - for stdin.")
    ],
    quotas: Annotated[Path, typer.Option(help="JSON lines of quotas.")],
    window_num: Annotated[int | None, typer.Option(min=1, metavar="S", help="controller.quota.window.num")] = None,
    window_size_seconds: Annotated[
        int | None, typer.Option(min=1, metavar="W", help="controller.quota.window.size.seconds")
    ] = None,
    algorithm: Annotated[
        AlgorithmName, typer.Option(help="token-bucket is what is enforced; the others are to compare it with.")
    ] = AlgorithmName.TOKEN_BUCKET,
    overrides: Overrides = None,
    config: ConfigFile = None,
) -> None:
    """Decide a file of requests by the job's own code, without Spark or Kafka; one decision a line."""
    from jobs.whatif.simulate import print_decisions

    windows = {"window_num": window_num, "window_size_seconds": window_size_seconds}
    given = [f"quota.{key}={value}" for key, value in windows.items() if value is not None]
    print_decisions(settings_of(context, [*(overrides or []), *given], config), requests, quotas, algorithm)


@app.command()
def explain(
    context: typer.Context,
    decision_id: Annotated[str, typer.Argument(metavar="ID", help="Of the decision: topic-partition-offset.")],
    neighbours: Annotated[
        int, typer.Option(min=0, max=1000, help="So many decisions of the bucket before and behind it.")
    ] = 3,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Tell how a decision came about, from the tables of the audit, and whether it comes out the same again."""
    settings = settings_of(context, overrides, config, server)
    from jobs.audit.explain import explained
    from jobs.cli.analysis.explanation_text import explanation_lines
    from jobs.cli.control.quota_text import print_json

    found = explained(settings, decision_id, neighbours)
    if as_json:
        print_json(found)
        return
    for line in explanation_lines(found):
        print(line)


@app.command()
def run(
    context: typer.Context, overrides: Overrides = None, config: ConfigFile = None, server: BootstrapServer = None
) -> None:
    """Broker, enforce and audit together with a live view; some tenants send requests. Ctrl-C ends it."""
    from jobs.sandbox.run import run_live

    run_live(settings_of(context, overrides, config, server))


@app.command()
def demo(context: typer.Context, overrides: Overrides = None, config: ConfigFile = None) -> None:
    """KIP-599's worked example through Kafka, Spark and Delta, checked; ends by itself."""
    from jobs.sandbox.demo import run_demo

    run_demo(settings_of(context, overrides, config))


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
