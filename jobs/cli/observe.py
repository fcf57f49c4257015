"""`mutation-quota observe`: what clients do to a cluster as it is, by the request logs of its brokers."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from jobs.cli.options import BootstrapServer, ConfigFile, Json, Overrides, check_new_file, print_json, read_settings
from jobs.storage.whole_file import whole_file
from quota.errors import BadInput

Logs = Annotated[
    list[Path], typer.Argument(metavar="FILE", help="Request logs of all brokers, with their rotated copies.")
]
TimeZone = Annotated[
    str | None,
    typer.Option(metavar="ZONE", help="Of the logs' times, such as Europe/Berlin: short for --set observe.time_zone."),
]
PrincipalRules = Annotated[
    str | None,
    typer.Option(metavar="RULES", help="As ssl.principal.mapping.rules: --set observe.principal_mapping_rules."),
]


def import_(
    context: typer.Context,
    logs: Logs,
    output: Annotated[
        str, typer.Option(metavar="FILE", help="A new file of requests, a JSON object a line; - for standard output.")
    ] = "-",
    snapshot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Topics from before the logs, of observe snapshot.")
    ] = None,
    time_zone: TimeZone = None,
    principal_rules: PrincipalRules = None,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
) -> None:
    """Turn request logs into a file of mutation requests, for recommend, backtest, report and simulate.

    Logs may be compressed and come in any order. A request that several logs tell of counts once, and what no line
    tells is marked as assumed. The summary is printed on standard error; with --json and --output, on standard output.
    """
    from jobs.cli.observe_text import print_summary, summary_json
    from jobs.observe.importing import import_logs
    from jobs.observe.snapshot import read_snapshot

    settings = read_settings(context, [*(overrides or []), *_shorts(time_zone, principal_rules)], config)
    known = read_snapshot(snapshot).partitions if snapshot else {}
    with _output(output) as out:
        summary = import_logs(logs, settings.observe, known, out)
    if as_json:
        print_json(summary_json(summary), sys.stderr if output == "-" else sys.stdout)
    else:
        print_summary(summary, settings.observe, output)


def follow(
    context: typer.Context,
    logs: Logs,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Read a log that was not followed before from its first line.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Stop at the present ends of the logs.")] = False,
    time_zone: TimeZone = None,
    principal_rules: PrincipalRules = None,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Write the mutations in request logs to the request topic, as the logs are written.

    `enforce` decides them in shadow: nobody is refused. The follower goes on where it stopped, also over rotations.
    One of a group works at a time: the latest that was started; each host's followers are a group.
    """
    from jobs.services.observe import run_follow

    settings = read_settings(context, [*(overrides or []), *_shorts(time_zone, principal_rules)], config, server)
    run_follow(settings, logs, from_beginning=from_beginning, once=once)


def compare(
    context: typer.Context,
    requests: Annotated[
        str | None,
        typer.Argument(metavar="[REQUESTS]", help="A file of observe import; by default what the audit has kept."),
    ] = None,
    quotas: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The brokers' quotas: of quotas pull, or JSON lines with effective_at."),
    ] = None,
    examples: Annotated[int, typer.Option(min=0, metavar="N", help="How many differences to print.")] = 10,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
) -> None:
    """Compare what a cluster with controller_mutation_rate answered with our decisions on the same requests.

    Where they differ the cause is named, as in docs/explanation/differences-from-kafka.md.
    """
    if (requests is None) != (quotas is None):
        raise BadInput("a file of requests needs --quotas, the quotas of the brokers; and the audit's tables have both")
    settings = read_settings(context, overrides, config)
    from jobs.cli.comparison_text import comparison_json, print_comparison
    from jobs.whatif.compare import compare_file, compare_tables

    found = compare_file(settings, requests, quotas) if requests and quotas else compare_tables(settings)
    if as_json:
        print_json(comparison_json(found))
    else:
        print_comparison(found, examples)


def snapshot(
    context: typer.Context,
    output: Annotated[str, typer.Option(metavar="FILE", help="A new file; - for standard output.")] = "-",
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Write the topics of the target cluster and their partitions to a file, for observe import."""
    from jobs.observe.snapshot import take_snapshot
    from quota.records import codec

    settings = read_settings(context, overrides, config, server)
    found = take_snapshot(settings)
    with _output(output) as out:
        out.write(codec.encode(found) + b"\n")


def _shorts(time_zone: str | None, principal_rules: str | None) -> list[str]:
    """Return the settings that the short options stand for."""
    given = {"time_zone": time_zone, "principal_mapping_rules": principal_rules}
    return [f"observe.{key}={value}" for key, value in given.items() if value is not None]


@contextmanager
def _output(name: str) -> Iterator[BinaryIO]:
    """Provide a new file, which is there if all goes well, or standard output.

    Raises:
        BadInput: there is such a file, or it cannot be written.
    """
    if name == "-":
        yield sys.stdout.buffer
        return
    check_new_file("--output", Path(name))
    try:
        with whole_file(Path(name), new=True) as out:
            yield out
    except OSError as error:
        raise BadInput(f"--output {name}: {error.strerror}") from None
