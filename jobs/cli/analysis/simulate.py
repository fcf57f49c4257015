"""`mutation-quota simulate`: decisions on the requests of a file, without Spark or Kafka."""

from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.options import SettingsOptions
from quota.algorithms.registry import AlgorithmName


def simulate(
    requests: Annotated[
        str, typer.Argument(metavar="REQUESTS", help="JSON lines of requests, each with a timestamp; - for stdin.")
    ],
    quotas: Annotated[Path, typer.Option(metavar="FILE", help="Quotas: YAML as for quotas apply, or JSON lines.")],
    window_num: Annotated[
        int | None, typer.Option(min=1, metavar="S", help="Same as Kafka's controller.quota.window.num.")
    ] = None,
    window_size_seconds: Annotated[
        int | None, typer.Option(min=1, metavar="W", help="Same as Kafka's controller.quota.window.size.seconds.")
    ] = None,
    algorithm: Annotated[
        AlgorithmName, typer.Option(help="token-bucket is the one that enforce uses; compare others with it.")
    ] = AlgorithmName.TOKEN_BUCKET,
    *,
    where: SettingsOptions,
) -> None:
    """Decide a file of requests, without Spark or Kafka.

    Uses the same code as enforce. The result is a file of records as on their topics: JSON lines, a decision or a dead
    letter for each line that is not blank. It has no --output.

    Examples:
      mutation-quota simulate requests.jsonl --quotas quotas.yaml
      mutation-quota simulate - --quotas quotas.jsonl --window-num 100
    """
    from jobs.whatif.simulate import print_decisions

    windows = {"window_num": window_num, "window_size_seconds": window_size_seconds}
    overridden = [f"quota.{key}={value}" for key, value in windows.items() if value is not None]
    print_decisions(where.read(*overridden), requests, quotas, algorithm)
