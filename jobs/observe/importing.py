"""`observe import`: converts request logs of any number of brokers to a file of mutation requests.

A snapshot of the cluster's topics says which of them existed before the logs begin.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from datetime import tzinfo
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import msgspec

from jobs.observe.collection import PART, Collection, PartWriter
from jobs.observe.scanning import Found, Segment, saved, scan, segments
from jobs.progress import Tell, progress
from quota.errors import BadInput, BadRecord
from quota.kafka.timing import now_ms
from quota.kafka.topics.topic_admin import read_cluster
from quota.observation.observer import Counts, Observer, TimedRequest, TopicSizes
from quota.planning.warnings import session_warnings
from quota.records import codec
from quota.records.record import EpochMs
from quota.records.request import Operation
from quota.settings import Settings
from quota.settings.jobs import ObserveSettings
from quota.settings.principals import PrincipalRules
from schemas.documents.records import LogSummary, ReadLog

EXAMPLE = Path(__file__).with_name("example.log.gz")
"""A request log to try the import with: a day of five tenants."""

_FEW_BYTES = 32 * 1024 * 1024

_MB = 1_000_000


class Snapshot(msgspec.Struct, frozen=True):
    """The partitions of each topic, by name."""

    at: EpochMs
    partitions: dict[str, int]


_snapshot_decoder = msgspec.json.Decoder(Snapshot)


def take_snapshot(settings: Settings) -> Snapshot:
    """Return the topics of the target cluster."""
    cluster = read_cluster(settings.target_connection, settings.kafka.timeout_seconds)
    return Snapshot(now_ms(), {topic: len(leaders) for topic, leaders in cluster.topics.items()})


def read_snapshot(file: Path) -> Snapshot:
    """Read a snapshot."""
    try:
        return codec.decode(file.read_bytes(), _snapshot_decoder)
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None
    except BadRecord as error:
        raise BadInput(f"{file}: not a file of mutation-quota observe snapshot: {error}") from None


def import_logs(
    files: Sequence[Path],
    settings: ObserveSettings,
    snapshot: Mapping[str, int],
    out: BinaryIO,
    *,
    quiet: bool = False,
) -> LogSummary:
    """Write the mutation requests of logs, given in any order, to `out` as JSON lines, ordered by time.

    `snapshot` has the partitions of the topics that existed before the logs begin, by name. Standard error tells how
    much has been read, unless `quiet` is set.
    """
    files = list({file.resolve(): file for file in reversed(files)}.values())[::-1]  # overlapping patterns
    sizes = TopicSizes(snapshot, settings.default_partitions or None)
    observer = Observer(sizes, PrincipalRules(settings.principal_mapping_rules).user)
    users = set[str]()
    with TemporaryDirectory(prefix="mutation-quota-") as folder:
        logs = _read_all(files, settings.zone, Path(folder), quiet=quiet)
        with closing(Collection(Path(folder))) as collection:
            for logged in collection.in_order():
                request = observer.observe(logged)
                if request is not None:
                    users.add(request.user)
                    timed = TimedRequest(**msgspec.structs.asdict(request), timestamp=logged.received_at)
                    out.write(codec.encode(timed) + b"\n")
            out.flush()
            return _summary(list(map(str, files)), logs, collection, observer.counts, session_warnings(users))


def _summary(
    names: Sequence[str], logs: Sequence[Found], collection: Collection, counts: Counts, warnings: list[str]
) -> LogSummary:
    return LogSummary(
        logs={name: _read_log(log) for name, log in zip(names, logs, strict=True)},
        forwarded=collection.forwarded,
        copies=collection.copies,
        clock_differences_ms=collection.clock_differences(names),
        requests_by_operation=_by_operation(counts.requests),
        mutations_by_operation=_by_operation(counts.mutations),
        assumed_topics_by_operation=_by_operation(counts.assumed_topics),
        validate_only=counts.validate_only,
        rejected_topics=counts.rejected_topics,
        throttled_requests=counts.throttled_requests,
        failed_topics_by_error={str(code): count for code, count in sorted(counts.failed_topics.items())},
        first_at=counts.first_at,
        last_at=counts.last_at,
        warnings=warnings,
    )


def _read_log(log: Found) -> ReadLog:
    rests = int(log.rest_bytes > 0)
    reason = "the beginning of the first line is missing; it may be in the file before" if rests else None
    return ReadLog(
        log.bytes,
        log.requests,
        log.broken + rests,
        log.broken_bytes + log.rest_bytes,
        log.cut + rests,
        log.first_broken or reason,
    )


def _by_operation(counts: Counter[Operation]) -> dict[str, int]:
    return {operation.value: counts[operation] for operation in Operation}


def _read_all(files: Sequence[Path], zone: tzinfo, folder: Path, *, quiet: bool) -> list[Found]:
    """Read files into parts in a folder, which pipes are saved to first."""
    parts = [segment for log, file in enumerate(files) for segment in segments(log, saved(file, folder))]
    done, total = 0, sum(part.bytes for part in parts)
    logs = [Found() for _ in files]
    telling: AbstractContextManager[Tell] = nullcontext(lambda _words: None) if quiet else progress("reading")
    with telling as tell, _workers(total) as submit:
        tasks = {
            submit(_read_segment, part, zone, folder / f"{number:06}.{PART}"): part for number, part in enumerate(parts)
        }
        for task in as_completed(tasks):
            task.result()
            done += tasks[task].bytes
            tell(f"reading: {done / _MB:,.0f} of {total / _MB:,.0f} MB")
        for task, part in tasks.items():  # in the order of the files
            logs[part.log].add(task.result())
    for file, log in zip(files, logs, strict=True):
        log.check(file)
    return logs


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
    with PartWriter(part) as writer:
        return scan(segment, zone, partial(writer.add, segment.log))
