"""`mutation-quota simulate`: decisions on the requests of a file, without Spark or Kafka."""

from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.options import ConfigFile, Overrides, read_settings
from quota.algorithms.registry import AlgorithmName


def simulate(
    context: typer.Context,
    requests: Annotated[
        str, typer.Argument(metavar="REQUESTS", help="JSON lines, each with a timestamp; - for stdin.")
    ],
    quotas: Annotated[Path, typer.Option(help="YAML as of quotas apply, or JSON lines of quotas.")],
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
    overridden = [f"quota.{key}={value}" for key, value in windows.items() if value is not None]
    print_decisions(read_settings(context, [*(overrides or []), *overridden], config), requests, quotas, algorithm)
