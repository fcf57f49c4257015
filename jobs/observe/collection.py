"""Merges the requests of several logs on disk: each once, ordered by time, in bounded memory."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from quota.observation.request_log import LoggedRequest
from schemas.documents.observation import ClockDifference

_MEMORY = "1GB"
"""The memory of DuckDB, above which it uses its folder."""

_NEAR_MS = 60_000
"""The largest distance of the two lines of a forwarded request, in addition to the clock difference [ms]."""

_ROWS = 20_000
_KEY_BYTES = 12

_SCHEMA = pa.schema(
    [
        ("log", pa.int32()),
        ("place", pa.int64()),  # of the line in the log
        ("received_at", pa.int64()),
        ("completed_at", pa.int64()),
        ("forwarded", pa.bool_()),
        ("identity", pa.binary()),  # identifies a request in the logs of both a broker and the controller
        ("line", pa.binary()),  # identifies a line
        ("request", pa.binary()),
    ]
)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(LoggedRequest).decode


_AHEAD = """
CASE WHEN forwarded.completed_at > broker.completed_at THEN forwarded.completed_at - broker.completed_at
     WHEN forwarded.completed_at < broker.received_at THEN forwarded.completed_at - broker.received_at
     ELSE 0 END
"""
"""The smallest possible lead of the controller's clock over the broker's [ms]."""

_CLOCKS = f"""
CREATE TABLE clocks AS
WITH once AS (SELECT identity FROM seen GROUP BY identity HAVING count(*) = 2 AND count_if(forwarded) = 1)
SELECT forwarded.log AS log, broker.log AS broker_log, median({_AHEAD})::BIGINT AS ahead
FROM seen AS forwarded JOIN seen AS broker USING (identity) SEMI JOIN once USING (identity)
WHERE forwarded.forwarded AND NOT broker.forwarded AND forwarded.log <> broker.log
GROUP BY ALL
"""  # noqa: S608 a constant
"""Clock differences, from requests that are in both logs exactly once."""

_TWINS = """
CREATE TABLE twins AS
SELECT forwarded.line AS line
FROM (SELECT line, identity, completed_at AS at FROM seen WHERE forwarded) AS forwarded
ASOF JOIN (SELECT identity, completed_at AS at FROM seen WHERE NOT forwarded) AS broker
  ON forwarded.identity = broker.identity AND forwarded.at + getvariable('near') >= broker.at
WHERE forwarded.at - broker.at <= getvariable('near')
"""
"""Requests that both the controller and a broker have logged, at about the same time."""

_COUNTS = """
SELECT count(*), count(DISTINCT line), (SELECT count(DISTINCT line) FROM twins) FROM seen
"""

_IN_ORDER = """
SELECT received_at, line, request
FROM seen ANTI JOIN twins USING (line) JOIN (SELECT log, min(received_at) AS begins FROM seen GROUP BY log) USING (log)
ORDER BY received_at, begins, log, place
"""
"""Requests of the same time are in the order of the log."""


class PartWriter:
    """Writes some of the requests into a file; several processes may write parts at once."""

    def __init__(self, file: Path) -> None:
        self._writer = pq.ParquetWriter(file, _SCHEMA, compression="lz4")
        self._rows: list[tuple[object, ...]] = []

    def add(self, log: int, place: int, request: LoggedRequest) -> None:
        """Add a request from a place in the log of this number."""
        encoded = _encode(request)
        names = [topic.name or topic.topic_id for topic in request.topics]
        identity = (request.principal, request.client_id, request.operation, request.correlation_id, names)
        times = (request.received_at, request.completed_at)
        self._rows.append((log, place, *times, request.forwarded, _key(_encode(identity)), _key(encoded), encoded))
        if len(self._rows) == _ROWS:
            self._write()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._rows:
            self._write()
        self._writer.close()

    def _write(self) -> None:
        columns = zip(*self._rows, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
        self._writer.write_batch(pa.record_batch(arrays, _SCHEMA))
        self._rows = []


class Collection:
    """The requests of all parts, each once.

    A request that a broker has forwarded is also in the controller's log, and a line may be in a log and in a rotated
    copy of it.
    """

    def __init__(self, folder: Path) -> None:
        """Read the parts in a folder, which the caller removes."""
        self._db = duckdb.connect(folder / "collection.duckdb")
        self._db.execute(f"SET memory_limit = '{_MEMORY}'; SET enable_progress_bar = false")
        self._db.execute("SET temp_directory = $folder", {"folder": str(folder)})
        self._db.read_parquet([str(each) for each in sorted(folder.glob("*.parquet"))]).create_view("seen")
        self._db.execute(_CLOCKS)
        ((furthest,),) = self._db.execute("SELECT coalesce(max(abs(ahead)), 0) FROM clocks").fetchall()
        self._db.execute(f"SET VARIABLE near = {furthest + _NEAR_MS}")
        self._db.execute(_TWINS)
        ((lines, once, self.forwarded),) = self._db.execute(_COUNTS).fetchall()
        self.copies = lines - once

    def clock_differences(self, logs: Sequence[str]) -> list[ClockDifference]:
        """Return the clock differences between logs of these names, from requests that are in two of them.

        Each is the smallest possible lead of the clock of a controller's log over a broker's.
        """
        rows = self._db.execute("SELECT log, broker_log, ahead FROM clocks ORDER BY ALL").fetchall()
        return [ClockDifference(logs[log], logs[other], ahead_ms) for log, other, ahead_ms in rows]

    def in_order(self) -> Iterator[LoggedRequest]:
        """Yield each request once, ordered by the time at which it was received, then by the place in the log."""
        now, lines = None, set[bytes]()
        for batch in self._db.sql(_IN_ORDER).to_arrow_reader(_ROWS):
            for received_at, line, request in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if received_at != now:
                    now, lines = received_at, set()
                if line not in lines:
                    yield _decode(request)
                lines.add(line)

    def close(self) -> None:
        """Close the database."""
        self._db.close()


def _key(data: bytes) -> bytes:
    return blake2b(data, digest_size=_KEY_BYTES).digest()
