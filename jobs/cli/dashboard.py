"""`mutation-quota dashboard`: serves the live page."""

from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.options import KafkaOptions
from quota.settings.loading import Override
from quota.settings.types import MAX_PORT


def dashboard(
    port: Annotated[
        int | None,
        typer.Option(min=0, max=MAX_PORT, metavar="N", help="Port; 0 for any free one. Default: 8599."),
    ] = None,
    bind: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="IP address to listen on. Default: 127.0.0.1.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with a token that browsers must present; required for addresses other than 127.0.0.1.",
        ),
    ] = None,
    *,
    kafka: KafkaOptions,
) -> None:
    """Serve a live page of load, tenants and decisions.

    It reads only the topics, and needs neither Spark nor the tables. Ctrl-C stops it.

    Examples:
      mutation-quota dashboard --bootstrap-server kafka:9092
      mutation-quota dashboard --bind 10.1.2.3 --token-file token
    """
    given = (
        ("port", port, "--port"),
        ("address", bind, "--bind"),
        ("token_file", token_file, "--token-file"),
    )
    overrides = [Override(f"dashboard.{key}={value}", option) for key, value, option in given if value is not None]
    settings = kafka.read(*overrides)
    from jobs.dashboard.server import serve_dashboard
    from jobs.stopping import stop_signals
    from quota.callbacks.loading import check_callbacks

    check_callbacks(settings.quota.callbacks)
    with stop_signals() as stop, serve_dashboard(settings, ended=stop) as url:  # also SIGTERM
        print(f"dashboard at {url}", flush=True)
        stop.wait()
