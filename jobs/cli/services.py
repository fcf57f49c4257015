"""The commands that run: the jobs, the embedded broker, the live view and the demo."""

from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.options import BootstrapServer, ConfigFile, Overrides, read_settings
from quota.errors import BadInput

Once = Annotated[bool, typer.Option("--once", help="Work off what is there, and end.")]


def broker(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")] = 9092,
    data: Annotated[Path | None, typer.Option(help="The folder of its data; <storage.root>/broker by default.")] = None,
    overrides: Overrides = None,
    config: ConfigFile = None,
) -> None:
    """Run a real single-node Kafka for trying and testing, with the topics made; Ctrl-C ends it."""
    from jobs.sandbox.broker import embedded_broker
    from jobs.services.signals import stop_signals

    settings = read_settings(context, overrides, config)
    with stop_signals() as stop, embedded_broker(settings, port, data) as running:
        print(f"ready {running.address}", flush=True)
        while not stop.is_set():
            running.check()
            stop.wait(0.2)


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

    run_enforce(read_settings(context, overrides, config, server), once=once, reset=begin_anew, buckets=buckets)


def audit(
    context: typer.Context,
    once: Once = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Keep decisions, dead letters and quota changes in Delta tables."""
    from jobs.services.audit import run_audit

    run_audit(read_settings(context, overrides, config, server), once=once)


def minutes(context: typer.Context, once: Once = False, overrides: Overrides = None, config: ConfigFile = None) -> None:
    """Add up each tenant's decisions by the minute in a Delta table, from what the audit keeps."""
    from jobs.services.audit import run_minutes

    run_minutes(read_settings(context, overrides, config), once=once)


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

    run_apply(read_settings(context, overrides, config, server), once=once)


def gateway(
    context: typer.Context,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Speak Kafka's protocol in front of the cluster, so that unmodified clients obey the quotas.

    Clients connect to the gateway and are authenticated by the brokers. All requests are passed on; those that create,
    grow or delete topics wait for their decision first. Prints `ready HOST:PORT` when clients can connect.
    """
    from jobs.services.gateway import run_gateway

    run_gateway(read_settings(context, overrides, config, server))


def run(
    context: typer.Context, overrides: Overrides = None, config: ConfigFile = None, server: BootstrapServer = None
) -> None:
    """Broker, enforce and audit together with a live view; some tenants send requests. Ctrl-C ends it."""
    from jobs.sandbox.run import run_live

    run_live(read_settings(context, overrides, config, server))


def demo(context: typer.Context, overrides: Overrides = None, config: ConfigFile = None) -> None:
    """KIP-599's worked example through Kafka, Spark and Delta, checked; ends by itself."""
    from jobs.sandbox.demo import run_demo

    run_demo(read_settings(context, overrides, config))
