"""`mutation-quota simulate`: decides the requests of a file, without Spark or Kafka."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.options import SettingsOptions, check_inputs
from jobs.cli.output import OutputFormat, OutputOptions, print_text, stdout_bytes
from jobs.cli.tables import Columns, outcome, print_rows, sender
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision
from quota.settings.loading import Override
from quota.text import plural
from quota.whatif.rejected_algorithms import AlgorithmName
from schemas.documents.records import SimulatedDecisions

_COLUMNS: Columns = {
    "LINE": lambda decision: decision.source.offset + 1,
    "REQUESTED": "timestamp",
    "USER / CLIENT-ID": sender,
    "OUTCOME": outcome,
    "TOKENS": "tokens",
    "THROTTLED": "verdict.throttle_time_ms",
}


def simulate(
    requests: Annotated[
        str, typer.Argument(metavar="REQUESTS", help="JSON lines of requests, each with a timestamp; - for stdin.")
    ],
    quotas: Annotated[
        Path, typer.Option(metavar="FILE", help="Quotas: YAML as for quotas apply, or JSON lines; - for stdin.")
    ],
    window_num: Annotated[
        int | None, typer.Option(min=1, metavar="S", help="Same as --set quota.window_num=S.")
    ] = None,
    window_size_seconds: Annotated[
        int | None, typer.Option(min=1, metavar="W", help="Same as --set quota.window_size_seconds=W.")
    ] = None,
    algorithm: Annotated[
        AlgorithmName,
        typer.Option(metavar="NAME", help="token-bucket, as enforce, or for comparison sampled-rate or spread-rate."),
    ] = AlgorithmName.TOKEN_BUCKET,
    *,
    output: Annotated[
        OutputFormat | None,
        typer.Option("--output", "-o", metavar="FORMAT", help="jsonl (JSON lines, the default), table, json or yaml."),
    ] = None,
    where: SettingsOptions,
) -> None:
    """Decide a file of requests, without Spark or Kafka.

    Uses the same code as enforce. Prints records as on their topics, unless another --output is chosen: a decision or
    a dead letter for each line that is not blank. Exits with 1 if there is a dead letter.

    Examples:
      mutation-quota simulate requests.jsonl --quotas quotas.yaml --output table
      mutation-quota simulate - --quotas quotas.jsonl --window-num 100
    """
    check_inputs(requests, quotas)
    from jobs.whatif.request_file import decide_file

    windows = {"window_num": window_num, "window_size_seconds": window_size_seconds}
    overridden = [
        Override(f"quota.{key}={value}", f"--{key.replace('_', '-')}")
        for key, value in windows.items()
        if value is not None
    ]
    answers = decide_file(where.read(*overridden), requests, quotas, algorithm)
    lines, invalid = (
        _print_lines(answers) if output in {None, "jsonl"} else _print_whole(answers, OutputOptions(output))
    )
    if not lines:
        print(f"{requests}: no requests", file=sys.stderr)
    if invalid:
        print(f"invalid requests: {invalid:,} of {plural(lines, 'line')}", file=sys.stderr)
        raise typer.Exit(1)


def _print_lines(answers: Iterable[Decision | DeadLetter]) -> tuple[int, int]:
    """Print each answer at once, so that a file may be larger than the memory; return how many, and invalid ones."""
    out, lines, decisions = stdout_bytes(), 0, 0
    for answer in answers:
        out.write(codec.encode(answer) + b"\n")
        lines += 1
        decisions += isinstance(answer, Decision)
    out.flush()
    return lines, lines - decisions


def _print_whole(answers: Iterable[Decision | DeadLetter], output: OutputOptions) -> tuple[int, int]:
    decisions: list[Decision] = []
    dead_letters: list[DeadLetter] = []
    for answer in answers:
        if isinstance(answer, Decision):
            decisions.append(answer)
        else:
            dead_letters.append(answer)

    def table() -> None:
        if decisions:
            print_rows(decisions, _COLUMNS, optional=("REQUESTED", "LINE"))
        for dead_letter in dead_letters:
            print_text(f"line {dead_letter.source.offset + 1}: {dead_letter.error}", file=sys.stderr)

    output.print(SimulatedDecisions(decisions, dead_letters), table)
    return len(decisions) + len(dead_letters), len(dead_letters)
