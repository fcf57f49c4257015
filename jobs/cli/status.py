"""`mutation-quota status`: shows the state of a deployment on one screen."""

import os
from typing import Annotated

import typer

from jobs.cli.options import KafkaOptions
from jobs.cli.output import OutputOptions
from quota.settings.types import MAX_PORT


def _check_endpoints(endpoints: list[str] | None) -> list[str] | None:
    for each in endpoints or []:
        host, _, port = each.rpartition(":")
        if not host or not port.isdecimal() or int(port) > MAX_PORT:
            raise typer.BadParameter(f"{each}: expected HOST:PORT")
    return endpoints


Endpoints = Annotated[
    list[str] | None,
    typer.Option(
        "--metrics",
        metavar="HOST:PORT",
        callback=_check_endpoints,
        help="A job's metrics endpoint, which reports whether it runs; may be given several times. "
        "By default that of metrics.port.",
    ),
]
Timeout = Annotated[
    float,
    typer.Option(min=0.1, max=86_400, metavar="SECONDS", help="How long to wait for Kafka, storage and endpoints."),
]


def status(endpoints: Endpoints = None, timeout: Timeout = 10.0, *, output: OutputOptions, kafka: KafkaOptions) -> None:
    """Show topics, queries, tables and problems.

    Starts no JVM and changes nothing. A part that cannot be reached is a problem, and the rest is shown. LAG counts the
    records that a query has not read. RUNNING is ? if no metrics endpoint reports it: name the jobs' endpoints with
    --metrics.

    Exit code 0: there is no problem. Exit code 1: something is missing, cannot be reached, or is behind.

    Examples:
      mutation-quota status
      mutation-quota status --metrics 10.0.0.1:9464 --output json
    """
    settings = kafka.read()
    # deltalake's log would appear between the lines; what cannot be reached is reported as a problem.
    os.environ.setdefault("RUST_LOG", "error")
    from jobs.cli.status_text import print_status
    from jobs.status.assembly import read_status

    if endpoints is None:
        endpoints = [f"{settings.metrics.address}:{settings.metrics.port}"] if settings.metrics.port else []
    found = read_status(settings, endpoints, timeout)
    output.print(found, lambda: print_status(found))
    if not found.ok:
        raise typer.Exit(1)
