"""`mutation-quota status`: shows the state of a deployment on one screen."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from jobs.cli.options import KafkaOptions
from jobs.cli.output import WIDTH, OutputOptions, fill
from jobs.cli.tables import Columns, format_age, print_rows
from quota.settings.types import MAX_PORT
from quota.text import format_duration, format_time, plural, printable
from quota.timeline.change import ScheduledChange
from schemas.documents.status import EndpointStatus, QueryStatus, Status, TableStatus, TopicStatus

_LABEL = 9
_MAX_TOPICS = 14
_MAX_LAGS = 6
_MAX_SCHEDULED = 10

_STAMPED = {"LogAppendTime": "broker", "CreateTime": "producer", None: "-"}


def print_status(status: Status) -> None:
    """Print the state of a deployment."""
    about = f"mutation-quota {status.program.version}, state version {status.program.state_version}"
    moment = f"{format_time(status.at)[:19]}Z"
    print(f"{about}{moment:>{WIDTH - len(about)}}")
    for label, text in _parts(status):
        print(fill(printable(text), label.ljust(_LABEL), " " * _LABEL))
    print()
    shown = _shown_topics(status.topics)
    topics: Columns = {
        "TOPIC": "name",
        "PART": "partition_count",
        "RF": "replication_factor",
        "CLEANUP": "cleanup_policy",
        "RETENTION": _retention,
        "STAMPED": lambda topic: _STAMPED.get(topic.timestamp_type, "?"),
        "STATE": _topic_state,
    }
    print_rows(shown, topics, optional=("STAMPED", "CLEANUP", "RETENTION", "RF"))
    for line in _difference_lines(shown, len(status.topics) - len(shown)):
        print(printable(line))
    print()
    queries: Columns = {
        "QUERY": "name",
        "LAG": "lag",
        "LAST BATCH": lambda query: _batch_text(query, status.at),
        "RUNNING": lambda query: "?" if query.running is None else query.running,
        "POSITION STORED IN": "position_in",
    }
    print_rows(status.queries, queries, optional=("POSITION STORED IN",))
    for query in status.queries:
        for line in _lag_lines(query):
            print(line)
    for note in _query_notes(status.queries):
        print(fill(note, "  ", "  "))
    if status.tables:
        print()
        tables: Columns = {
            "TABLE": "name",
            "COMMIT": "version",
            "SCHEMA": "schema_version",
            "ROWS": "rows",
            "FILES": "files",
            "SIZE": "size_bytes",
            "COMMITTED": lambda table: _committed_text(table, status.at),
        }
        print_rows(status.tables, tables, optional=("SCHEMA", "FILES", "COMMIT"))
    for line in _scheduled_lines(status.scheduled):
        print(line)
    print()
    if status.ok:
        print("No problems.")
        return
    print(f"{plural(len(status.problems), 'problem')}:")
    for problem in status.problems:
        print(fill(printable(problem), "- ", "  "))


def _parts(status: Status) -> Iterator[tuple[str, str]]:
    yield "Kafka", f"{status.kafka.servers}: {_kafka_text(status)}"
    yield "Storage", f"{status.storage.root}: {_storage_text(status)}"
    for endpoint in status.endpoints:
        yield "Metrics", f"{endpoint.address}: {_endpoint_text(endpoint)}"
    if callback := status.callback:
        published = "none published" if callback.metadata_at is None else format_age(status.at, callback.metadata_at)
        yield "Callback", f"{callback.class_name}; the cluster's metadata: {published}"


def _endpoint_text(endpoint: EndpointStatus) -> str:
    if endpoint.error is not None:
        return "no response"
    jobs = ", ".join(endpoint.jobs or [str(endpoint.reason)])  # none while it starts or stands by
    return jobs if endpoint.ready else f"{jobs}: not ready"


def _kafka_text(status: Status) -> str:
    if status.kafka.brokers is None:
        return "cannot be read"
    return f"{plural(len(status.kafka.brokers), 'broker')}, cluster {status.kafka.cluster_id}"


def _storage_text(status: Status) -> str:
    storage = status.storage
    if storage.error is not None:
        return "cannot be read"
    version = storage.state_version
    if version is not None:
        return f"buckets of state version {version}"
    return "no buckets yet" if any(table.exists for table in status.tables) else "nothing is stored here yet"


def _topic_state(topic: TopicStatus) -> str:
    if not topic.exists:
        return "?" if topic.exists is None else "MISSING" if topic.needed else "not used yet"
    if topic.leaderless:
        return "NO LEADER"
    if topic.under_replicated:
        return "UNDER-REPLICATED"
    return "differs" if topic.differences else "ok"


def _retention(topic: TopicStatus) -> str:
    if topic.retention_ms is None or topic.cleanup_policy == "compact":
        return "-"
    return "forever" if topic.retention_ms < 0 else format_duration(topic.retention_ms)


def _shown_topics(topics: Sequence[TopicStatus]) -> list[TopicStatus]:
    """Return at most `_MAX_TOPICS` topics, because each user may have one; those with a problem come first."""
    in_order = sorted(topics, key=lambda topic: (topic.kind == "requests", _topic_state(topic) == "ok"))
    kept = {topic.name for topic in in_order[:_MAX_TOPICS]}
    return [topic for topic in topics if topic.name in kept]


def _difference_lines(shown: Sequence[TopicStatus], left_out: int) -> Iterator[str]:
    for topic in shown:
        for difference in topic.differences or ():
            yield f"  {topic.name}: {difference.config}={difference.found} (created with {difference.created})"
    if left_out:
        yield f"  and {plural(left_out, 'more topic')} of users (--output json)"


def _batch_text(row: QueryStatus, at: int) -> str:
    if row.exists is False:
        return "has not run"
    if row.last_batch is None and row.open_batch is None:
        return "-"
    done = format_age(at, row.last_batch.started_at) if row.last_batch else "none"
    if row.open_batch is None or row.open_batch.started_at is None:
        return done
    return f"{done}; one open {format_duration(max(0, at - row.open_batch.started_at))}"


def _lag_lines(row: QueryStatus) -> Iterator[str]:
    behind = sorted(
        (partition for partition in row.partitions or () if partition.lag), key=lambda partition: -partition.lag
    )
    if not behind:
        return
    listed = [f"{partition.topic}-{partition.partition} by {partition.lag:,}" for partition in behind[:_MAX_LAGS]]
    more = len(behind) - len(listed)
    listed += [f"{plural(more, 'more partition')} (--output json)"] if more else []
    text = f"{row.name} is behind in {', '.join(listed)}"
    yield fill(text, "  ", "    ")


def _query_notes(rows: Sequence[QueryStatus]) -> Iterator[str]:
    """Yield explanations of a lag that is not a problem, the active processes, and explanations of `?`."""
    if any(row.lag and row.partitions and not row.overdue for row in rows):
        yield "A lag is normal while records wait for the next batch, for up to a minute."
    for row in rows:
        if row.active and row.active_since:
            yield f"{row.name} is active in {row.active}, since {format_time(row.active_since)}."
    if any(row.running is None for row in rows):
        yield "RUNNING is ? on another machine without a metrics endpoint: --metrics HOST:PORT."


def _scheduled_lines(scheduled: Sequence[ScheduledChange] | None) -> Iterator[str]:
    if scheduled is None:
        yield from ("", "Scheduled changes are unknown, because the quota log cannot be read.")
    elif scheduled:
        yield from ("", "Scheduled changes:")
        for change in scheduled[:_MAX_SCHEDULED]:
            yield fill(printable(change.change), "  ", "    ")
        if len(scheduled) > _MAX_SCHEDULED:
            yield f"  and {plural(len(scheduled) - _MAX_SCHEDULED, 'later one')} (--output json)"


def _committed_text(table: TableStatus, at: int) -> str | None:
    return "none yet (audit)" if table.exists is False else format_age(at, table.committed_at)


def _check_endpoints(endpoints: list[str] | None) -> list[str] | None:
    for endpoint in endpoints or []:
        host, _, port = endpoint.rpartition(":")
        if not host or not port.isdecimal() or int(port) > MAX_PORT:
            raise typer.BadParameter(f"{endpoint}: expected HOST:PORT")
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

    Changes nothing. A part that cannot be reached is a problem, and the rest is shown. LAG counts the records that a
    query has not read. RUNNING is ? for a job on another machine whose metrics endpoint is not named with --metrics.
    Scheduled changes come last.

    Exit code 0: there is no problem. Exit code 1: something is missing, cannot be reached, or is behind.

    Examples:
      mutation-quota status
      mutation-quota status --metrics 10.0.0.1:9464 --output json
    """
    settings = kafka.read()
    from jobs.status.assembly import read_status

    if endpoints is None:
        endpoints = [f"{settings.metrics.address}:{settings.metrics.port}"] if settings.metrics.port else []
    state = read_status(settings, endpoints, timeout)
    output.print(state, lambda: print_status(state))
    if not state.ok:
        raise typer.Exit(1)
