"""`mutation-quota observe`: the requests of clients to a cluster, from the request logs of its brokers."""

import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.options import FileOptions, KafkaOptions, Once, SettingsOptions, TargetOptions
from jobs.cli.output import OutputOptions, print_text, print_warnings
from quota.errors import BadInput
from quota.observation.observer import ASSUMED_PARTITIONS
from quota.settings.jobs import ObserveSettings
from quota.text import format_duration, format_time, plural, printable
from schemas.documents.records import LogSummary

_CLOCK_MS = 1000
"""The smallest difference between clocks that is printed [ms]."""

_VERBS = {
    "CREATE_TOPICS": "create topics",
    "CREATE_PARTITIONS": "add partitions",
    "DELETE_TOPICS": "delete topics",
}


def import_(
    logs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Request logs of all brokers, with their rotated copies."),
    ] = None,
    example: Annotated[
        bool, typer.Option("--example", help="Import the log that is shipped as an example: a day of five tenants.")
    ] = False,
    snapshot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File of observe snapshot, with the topics that existed before the logs."),
    ] = None,
    *,
    file: FileOptions,
    output: OutputOptions,
    where: SettingsOptions,
) -> None:
    """Convert request logs to a file of requests.

    The file (JSON lines) is for recommend, backtest, report and simulate. Logs may be compressed and come in any order.
    - is standard input. A request in several logs counts once. Values that the logs do not contain are marked as
    assumed.

    Examples:
      mutation-quota observe import --example --output-file requests.jsonl
      mutation-quota observe import request.log* --set observe.time_zone=Europe/Berlin --output-file requests.jsonl
    """
    if example == bool(logs):
        raise BadInput("expected request logs as FILE, or --example")
    from jobs.observe.importing import EXAMPLE, import_logs, read_snapshot

    settings = where.read()
    known = read_snapshot(snapshot).partitions if snapshot else {}
    with file.open() as out:
        quiet = file.to_stdout and not output.for_people  # standard error has only the summary
        summary = import_logs(logs or [EXAMPLE], settings.observe, known, out, quiet=quiet)
    name = "-" if file.output_file is None else str(file.output_file)
    output.print(
        summary,
        lambda: _print_summary(summary, settings.observe, name),
        file=sys.stderr if file.to_stdout else sys.stdout,
    )


def follow(
    logs: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Request logs of this host; their rotated files are found.")
    ],
    from_beginning: Annotated[
        bool,
        typer.Option("--from-beginning", help="Start at the first line of logs that have not been followed before."),
    ] = False,
    once: Once = False,
    *,
    kafka: KafkaOptions,
) -> None:
    """Send the requests in growing logs to Kafka.

    Writes each mutation in the logs to the request topic. `enforce` decides these in shadow mode: nobody is rejected.
    An observer resumes where it stopped, also after rotations. If several observers have the same group (by default all
    on a host), only the one started last is active.

    Examples:
      mutation-quota observe follow /var/log/kafka/kafka-request.log
      mutation-quota observe follow request.log --from-beginning --once
    """
    from jobs.services.loops import run_follow

    settings = kafka.read()
    run_follow(settings, logs, from_beginning=from_beginning, once=once)


def snapshot(*, file: FileOptions, output: OutputOptions, kafka: TargetOptions) -> None:
    """Save the target cluster's topics for observe import.

    Take a snapshot before the period of the logs, so that the import knows the partitions of topics that existed
    before. The file is JSON.

    Examples:
      mutation-quota observe snapshot --output-file topics.json
      mutation-quota observe snapshot --bootstrap-server broker:9092
    """
    from jobs.observe.importing import take_snapshot
    from quota.records import codec

    file.check(output)
    topic_snapshot = take_snapshot(kafka.read())
    with file.open() as out:
        out.write(codec.encode(topic_snapshot) + b"\n")
    topics, partitions = len(topic_snapshot.partitions), sum(topic_snapshot.partitions.values())
    counts = f"{plural(topics, 'topic')}, {plural(partitions, 'partition')}"
    file.print_written(output, counts, at=topic_snapshot.at, topic_count=topics, partition_count=partitions)


def _print_summary(summary: LogSummary, settings: ObserveSettings, output: str) -> None:
    for line in chain(_requests(summary, settings), _answers(summary), _assumed(summary), _doubts(summary)):
        print_text(line, sys.stderr)
    print_warnings(summary.warnings)
    if output != "-":
        print_text(f"Wrote {output}{_advice(summary, output)}", sys.stderr)


def _advice(summary: LogSummary, output: str) -> str:
    if any(log.invalid_lines for log in summary.logs.values()):
        return "; do not size quotas with it, requests are missing"
    if summary.first_at is None:
        return ", without requests"
    return f"; size quotas with: mutation-quota recommend --requests {output}"


def _requests(summary: LogSummary, settings: ObserveSettings) -> Iterator[str]:
    for operation, count in summary.requests_by_operation.items():
        if count:
            mutations = summary.mutations_by_operation[operation]
            yield f"{plural(count, 'request')} to {_VERBS[operation]}: {plural(mutations, 'mutation')}"
    if summary.first_at is None or summary.last_at is None:
        yield "the logs have no mutations"
        return
    yield (
        f"from {format_time(summary.first_at)} to {format_time(summary.last_at)} "
        f"(times without a zone were read as {settings.time_zone})"
    )


def _answers(summary: LogSummary) -> Iterator[str]:
    if summary.rejected_topics or summary.throttled_requests:
        yield (
            f"rejected by the cluster's own quotas: {plural(summary.rejected_topics, 'topic')}; "
            f"throttled: {plural(summary.throttled_requests, 'request')}"
        )
    if failed := summary.failed_topics_by_error:
        codes = ", ".join(f"{count:,} with error {code}" for code, count in failed.items())
        yield f"topics that failed for other reasons, and were not charged: {codes}"
    if summary.validate_only:
        yield f"validate-only requests, not charged: {summary.validate_only:,}"
    if summary.forwarded:
        yield f"in the logs of a broker and of the controller, counted once: {plural(summary.forwarded, 'request')}"
    if summary.copies:
        yield f"duplicate lines, counted once: {summary.copies:,}"


def _assumed(summary: LogSummary) -> Iterator[str]:
    assumed = summary.assumed_topics_by_operation
    if any(assumed.values()):
        parts = ", ".join(f"{count:,} to {_VERBS[operation]}" for operation, count in assumed.items() if count)
        yield (
            f"topics whose cost is not in the logs, assumed to be {ASSUMED_PARTITIONS}: {parts} "
            "(observe snapshot saves existing topics; observe.default_partitions sets the default)"
        )


def _doubts(summary: LogSummary) -> Iterator[str]:
    for clocks in summary.clock_differences_ms:
        if abs(clocks.ahead_ms) > _CLOCK_MS:
            seconds = format_duration(abs(clocks.ahead_ms))
            way = "ahead of" if clocks.ahead_ms > 0 else "behind"
            yield f"clocks differ: {clocks.log} is {seconds} {way} {clocks.other}; times are not corrected"
    for name, log in summary.logs.items():
        if log.invalid_lines:
            lines = f"{plural(log.invalid_lines, 'line')} with a mutation ({plural(log.invalid_bytes, 'byte')})"
            yield f"{name}: cannot read {lines}; the first: {printable(log.first_invalid or '')}"
        if log.cut_lines:
            yield f"{name}: {plural(log.cut_lines, 'line')} of these cut off: the largest requests are missing"
