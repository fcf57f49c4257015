"""Prints the summary of imported request logs."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from rich.console import Console
from rich.text import Text

from jobs.observe.importing import Summary
from quota.observation.observer import ASSUMED_PARTITIONS
from quota.records.request import Operation
from quota.settings.jobs import ObserveSettings
from quota.text import format_time, plural, printable
from schemas.documents.observation import ClockDifference, LogSummary, ReadLog

_CLOCK_MS = 1000
"""The smallest difference between clocks that is printed [ms]."""

_VERBS = {
    Operation.CREATE_TOPICS: "create topics",
    Operation.CREATE_PARTITIONS: "add partitions",
    Operation.DELETE_TOPICS: "delete topics",
}


def log_summary(summary: Summary) -> LogSummary:
    """Return the summary as data."""
    counts = summary.counts
    return LogSummary(
        logs={
            name: ReadLog(bytes=found.bytes, requests=found.requests, invalid_lines=found.broken)
            for name, found in summary.logs.items()
        },
        forwarded=summary.forwarded,
        copies=summary.copies,
        clock_differences_ms=[
            ClockDifference(_log_name(summary, each.log), _log_name(summary, each.broker_log), each.ahead_ms)
            for each in summary.clocks
        ],
        requests_by_operation=_by_operation(counts.requests),
        mutations_by_operation=_by_operation(counts.mutations),
        assumed_topics_by_operation=_by_operation(counts.assumed_topics),
        validate_only=counts.validate_only,
        refused_topics=counts.refused_topics,
        throttled_requests=counts.throttled_requests,
        failed_topics_by_error={str(code): count for code, count in sorted(counts.failed_topics.items())},
        first_at=counts.first_at,
        last_at=counts.last_at,
    )


def print_summary(summary: Summary, settings: ObserveSettings, output: str) -> None:
    """Print the summary to standard error."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    parts = (
        _requests(summary, settings),
        _answers(summary),
        _counted_once(summary),
        _assumed(summary),
        _doubts(summary),
    )
    for line in chain.from_iterable(parts):
        console.print(Text(line))
    if output != "-":
        console.print(Text(f"Wrote {output}; size quotas with: mutation-quota recommend --requests {output}"))


def _requests(summary: Summary, settings: ObserveSettings) -> Iterator[str]:
    counts = summary.counts
    for operation, verb in _VERBS.items():
        if counts.requests[operation]:
            requests, mutations = counts.requests[operation], counts.mutations[operation]
            yield f"{plural(requests, 'request')} to {verb}: {plural(mutations, 'mutation')}"
    if counts.first_at is None or counts.last_at is None:
        yield "the logs have no mutations"
        return
    yield (
        f"from {format_time(counts.first_at)} to {format_time(counts.last_at)} "
        f"(times without a zone were read as {settings.time_zone})"
    )


def _answers(summary: Summary) -> Iterator[str]:
    counts = summary.counts
    if counts.refused_topics or counts.throttled_requests:
        yield (
            f"refused by the cluster's own quotas: {plural(counts.refused_topics, 'topic')}; "
            f"throttled: {plural(counts.throttled_requests, 'request')}"
        )
    if counts.failed_topics:
        codes = ", ".join(f"{count:,} with error {code}" for code, count in counts.failed_topics.most_common())
        yield f"topics that failed for other reasons, and were not charged: {codes}"
    if counts.validate_only:
        yield f"validate-only requests, not charged: {counts.validate_only:,}"


def _counted_once(summary: Summary) -> Iterator[str]:
    if summary.forwarded:
        yield f"in the logs of a broker and of the controller, counted once: {plural(summary.forwarded, 'request')}"
    if summary.copies:
        yield f"duplicate lines, counted once: {summary.copies:,}"


def _assumed(summary: Summary) -> Iterator[str]:
    assumed = {operation: count for operation, count in summary.counts.assumed_topics.items() if count}
    if assumed:
        parts = ", ".join(f"{count:,} to {_VERBS[operation]}" for operation, count in assumed.items())
        yield (
            f"topics whose cost is not in the logs, assumed to be {ASSUMED_PARTITIONS}: {parts} "
            "(observe snapshot saves existing topics; observe.default_partitions sets the default)"
        )


def _doubts(summary: Summary) -> Iterator[str]:
    for each in summary.clocks:
        if abs(each.ahead_ms) > _CLOCK_MS:
            log, other = _log_name(summary, each.log), _log_name(summary, each.broker_log)
            way = "ahead of" if each.ahead_ms > 0 else "behind"
            yield (f"clocks differ: {log} is {abs(each.ahead_ms) / 1000:,.1f} s {way} {other}; times are not corrected")
    for name, found in summary.logs.items():
        if found.broken:
            first = printable(found.first_broken or "")
            yield f"{name}: cannot read {plural(found.broken, 'line')}; the first: {first}"


def _log_name(summary: Summary, number: int) -> str:
    return list(summary.logs)[number]


def _by_operation(counts: Counter[Operation]) -> dict[str, int]:
    return {operation.value: counts[operation] for operation in Operation}
