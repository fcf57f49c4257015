"""`mutation-quota observe`: the requests of clients to a cluster, from the request logs of its brokers."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.options import FileOptions, KafkaOptions, SettingsOptions, TargetOptions
from jobs.cli.output import OutputOptions, print_text
from quota.settings.loading import Override
from quota.text import plural
from schemas.documents.observation import WrittenSnapshot

Logs = Annotated[
    list[Path], typer.Argument(metavar="FILE", help="Request logs of all brokers, with their rotated copies.")
]
TimeZone = Annotated[
    str | None,
    typer.Option(
        metavar="ZONE", help="Time zone of the logs, such as Europe/Berlin. Same as --set observe.time_zone=..."
    ),
]
PrincipalRules = Annotated[
    str | None,
    typer.Option(
        metavar="RULES",
        help="The brokers' ssl.principal.mapping.rules. Same as --set observe.principal_mapping_rules=...",
    ),
]


def import_(
    logs: Logs,
    snapshot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File of observe snapshot, with the topics that existed before the logs."),
    ] = None,
    time_zone: TimeZone = None,
    principal_rules: PrincipalRules = None,
    *,
    file: FileOptions,
    output: OutputOptions,
    where: SettingsOptions,
) -> None:
    """Convert request logs to a file of requests.

    The file (JSON lines) is for recommend, backtest, report and simulate. Logs may be compressed and come in any order.
    A request in several logs counts once, and values that the logs do not contain are marked as assumed. The summary
    goes to standard error if the requests go to standard output.

    Examples:
      mutation-quota observe import request.log* --output-file requests.jsonl
      mutation-quota observe import kafka-request.log --time-zone Europe/Berlin
    """
    from jobs.cli.observe.summary_text import log_summary, print_summary
    from jobs.observe.importing import import_logs
    from jobs.observe.snapshot import read_snapshot

    settings = where.read(*_short_settings(time_zone, principal_rules))
    known = read_snapshot(snapshot).partitions if snapshot else {}
    with file.open() as out:
        summary = import_logs(logs, settings.observe, known, out)
    name = "-" if file.output_file is None else str(file.output_file)
    output.print(
        log_summary(summary),
        lambda: print_summary(summary, settings.observe, name),
        file=sys.stderr if file.to_stdout else sys.stdout,
    )


def follow(
    logs: Logs,
    from_beginning: Annotated[
        bool,
        typer.Option("--from-beginning", help="Start at the first line of logs that have not been followed before."),
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Process what is available now, then exit.")] = False,
    time_zone: TimeZone = None,
    principal_rules: PrincipalRules = None,
    *,
    kafka: KafkaOptions,
) -> None:
    """Send the requests in growing logs to Kafka.

    Writes each mutation in the logs to the request topic. `enforce` decides these in shadow mode: nobody is refused. An
    observer resumes where it stopped, also after rotations. If several observers have the same group (by default all
    on a host), only the one started last is active.

    Examples:
      mutation-quota observe follow /var/log/kafka/kafka-request.log
      mutation-quota observe follow request.log --from-beginning --once
    """
    from jobs.services.observe import run_follow

    settings = kafka.read(*_short_settings(time_zone, principal_rules))
    run_follow(settings, logs, from_beginning=from_beginning, once=once)


def snapshot(*, file: FileOptions, output: OutputOptions, kafka: TargetOptions) -> None:
    """Save the target cluster's topics for observe import.

    Take a snapshot before the period of the logs, so that the import knows the partitions of topics that existed
    before. The file is JSON. --output is the format of the summary that is printed if --output-file names a file.

    Examples:
      mutation-quota observe snapshot --output-file topics.json
      mutation-quota observe snapshot --bootstrap-server broker:9092
    """
    from jobs.observe.snapshot import take_snapshot
    from quota.records import codec

    file.check(output)
    found = take_snapshot(kafka.read())
    with file.open() as out:
        out.write(codec.encode(found) + b"\n")
    if not file.to_stdout:
        topics, partitions = len(found.partitions), sum(found.partitions.values())
        counts = f"{plural(topics, 'topic')}, {plural(partitions, 'partition')}"
        output.print(
            WrittenSnapshot(str(file.output_file), found.at, topics, partitions),
            lambda: print_text(f"Wrote {file.output_file}: {counts}."),
        )


def _short_settings(time_zone: str | None, principal_rules: str | None) -> list[Override]:
    """Return the settings that are set by the short options."""
    given = (
        ("time_zone", time_zone, "--time-zone"),
        ("principal_mapping_rules", principal_rules, "--principal-rules"),
    )
    return [Override(f"observe.{key}={value}", option) for key, value, option in given if value is not None]
