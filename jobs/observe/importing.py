"""`observe import`: converts request logs of any number of brokers to a file of mutation requests."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import tzinfo
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from jobs.observe.collection import Collection, PartWriter
from jobs.observe.segments import Segment, read_blocks, segments
from quota.errors import BadInput, BadRecord
from quota.observation.log_time import LogTime
from quota.observation.observer import Counts, Observer, timed
from quota.observation.principals import PrincipalRules
from quota.observation.request_log import MARK, mutation_lines, read_line
from quota.observation.topic_sizes import TopicSizes
from quota.records import codec
from quota.records.request import Operation
from quota.settings.jobs import ObserveSettings
from schemas.documents.observation import LogSummary, ReadLog

_JSON, _OLD = MARK + b"{", MARK + b"RequestHeader("
"""The beginning of a message, as JSON, and as written by brokers before Kafka 2.8."""

_FEW_BYTES = 32 * 1024 * 1024


@dataclass
class Found:
    """The counts of a log, or of a segment of it."""

    bytes: int = 0
    requests: int = 0
    broken: int = 0
    """Lines with a mutation that cannot be parsed."""
    first_broken: str | None = None
    is_request_log: bool = False
    is_old: bool = False

    def add(self, other: "Found") -> None:
        """Add the counts of a later segment."""
        self.bytes += other.bytes
        self.requests += other.requests
        self.broken += other.broken
        self.first_broken = self.first_broken or other.first_broken
        self.is_request_log |= other.is_request_log
        self.is_old |= other.is_old


def import_logs(
    files: Sequence[Path], settings: ObserveSettings, snapshot: Mapping[str, int], out: BinaryIO
) -> LogSummary:
    """Write the mutation requests of logs, given in any order, to `out` as JSON lines, ordered by time.

    `snapshot` has the partitions of the topics that existed before the logs begin, by name.
    """
    files = list({file.resolve(): file for file in reversed(files)}.values())[::-1]  # overlapping patterns
    sizes = TopicSizes(snapshot, settings.default_partitions or None)
    observer = Observer(sizes, PrincipalRules(settings.principal_mapping_rules))
    with TemporaryDirectory(prefix="mutation-quota-") as folder:
        found = _read_all(files, settings.zone, Path(folder))
        with closing(Collection(Path(folder))) as collection:
            for logged in collection.in_order():
                request = observer.observe(logged)
                if request is not None:
                    out.write(codec.encode(timed(request, logged.received_at)) + b"\n")
            out.flush()
            return _summary(list(map(str, files)), found, collection, observer.counts)


def _summary(names: Sequence[str], logs: Sequence[Found], collection: Collection, counts: Counts) -> LogSummary:
    return LogSummary(
        logs={
            name: ReadLog(log.bytes, log.requests, log.broken, log.first_broken)
            for name, log in zip(names, logs, strict=True)
        },
        forwarded=collection.forwarded,
        copies=collection.copies,
        clock_differences_ms=collection.clock_differences(names),
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


def _by_operation(counts: Counter[Operation]) -> dict[str, int]:
    return {operation.value: counts[operation] for operation in Operation}


def _read_all(files: Sequence[Path], zone: tzinfo, folder: Path) -> list[Found]:
    parts = [segment for log, file in enumerate(files) for segment in segments(log, file)]
    total = sum(part.bytes for part in parts)
    found = [Found() for _ in files]
    with _progress(total) as advance, _workers(total) as submit:
        tasks = {
            submit(_read_segment, part, zone, folder / f"{number:06}.parquet"): part
            for number, part in enumerate(parts)
        }
        for task in as_completed(tasks):
            task.result()
            advance(tasks[task].bytes)
        for task, part in tasks.items():  # in the order of the files
            found[part.log].add(task.result())
    for file, of_file in zip(files, found, strict=True):
        _check(file, of_file)
    return found


@contextmanager
def _workers(total: int) -> Iterator[Callable[..., Future[Found]]]:
    """Provide a function that submits work: to a process for each core, or to a thread if there are few bytes."""
    pool: Executor
    if total < _FEW_BYTES:  # starting processes takes longer
        pool = ThreadPoolExecutor(1)
    else:
        pool = ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn"))
    with pool:
        try:
            yield pool.submit
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _read_segment(segment: Segment, zone: tzinfo, part: Path) -> Found:
    found, time = Found(), LogTime(zone)
    with PartWriter(part) as writer:
        for block in read_blocks(segment):
            found.bytes += len(block)
            found.is_request_log = found.is_request_log or _JSON in block
            found.is_old = found.is_old or _OLD in block
            for begin, end in mutation_lines(block):
                try:
                    logged = read_line(block[begin:end], time)
                except BadRecord as error:
                    found.broken += 1
                    found.first_broken = found.first_broken or str(error)
                    continue
                if logged is not None:
                    found.requests += 1
                    writer.add(segment.log, logged)
    return found


def _check(file: Path, found: Found) -> None:
    """Check that a file is a request log, or empty."""
    if found.is_request_log or not found.bytes:
        return
    if found.is_old:
        raise BadInput(f"{file}: a request log of Kafka before 2.8, which is not JSON; use logs of Kafka 2.8 or newer")
    raise BadInput(
        f"{file}: not a request log, no line has {MARK.decode()!r}; brokers write it if kafka.request.logger is at "
        "DEBUG"
    )


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show the progress in bytes, if standard error is a terminal; yield a function that adds to it."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("reading", total=total)
        yield lambda count: progress.advance(task, count)
