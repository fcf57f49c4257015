"""Merges the requests of several logs on disk: each once, ordered by time, in bounded memory."""

import sqlite3
import statistics
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import closing
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Self

import msgspec

from quota.observation.request_log import LoggedRequest
from schemas.documents.records import ClockDifference

PART = "part"
"""The suffix of the files of parts."""

_NEAR_MS = 60_000
"""The largest distance of the two lines of a forwarded request, in addition to the clock difference [ms]."""

_SAME_MS = 2_000
"""The same where clocks agree [ms]: a log may have whole seconds."""

_ROWS = 20_000
_KEY_BYTES = 12

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(LoggedRequest).decode

_SETUP = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE seen (
    log INTEGER,
    place INTEGER,  -- of the line in the log
    received_at INTEGER,
    completed_at INTEGER,
    forwarded INTEGER,
    identity BLOB,  -- identifies a request in the logs of both a broker and the controller
    line BLOB,  -- identifies a line
    request BLOB
);
"""

_INDEXES = """
CREATE INDEX by_time ON seen (received_at);
CREATE INDEX by_identity ON seen (identity, forwarded, completed_at, received_at, log, line);
CREATE TABLE twins (line BLOB PRIMARY KEY) WITHOUT ROWID;
"""

_CLOCKS = """
WITH once AS (SELECT identity FROM seen GROUP BY identity HAVING count(*) = 2 AND sum(forwarded) = 1)
SELECT forwarded.log, broker.log,
    CASE WHEN forwarded.completed_at > broker.completed_at THEN forwarded.completed_at - broker.completed_at
         WHEN forwarded.completed_at < broker.received_at THEN forwarded.completed_at - broker.received_at
         ELSE 0 END
FROM once
JOIN seen AS forwarded ON forwarded.identity = once.identity AND forwarded.forwarded = 1
JOIN seen AS broker ON broker.identity = once.identity AND broker.forwarded = 0
WHERE forwarded.log <> broker.log
ORDER BY 1, 2
"""
"""The smallest possible leads of a controller's clock over a broker's, by requests that are in both logs once [ms]."""

_REPEATED = """
SELECT identity, forwarded, completed_at, log, line FROM seen
WHERE identity IN (SELECT identity FROM seen GROUP BY identity HAVING min(forwarded) < max(forwarded))
ORDER BY identity
"""
"""The lines of each request of which both the controller and a broker have logged one like it."""

_COUNTS = "SELECT count(*), count(DISTINCT line), (SELECT count(*) FROM twins) FROM seen"

_BY_TIME = """
SELECT received_at, log, place, line, request FROM seen
WHERE line NOT IN (SELECT line FROM twins) ORDER BY received_at
"""


class PartWriter:
    """Writes some of the requests into a file; several processes may write parts at once."""

    def __init__(self, file: Path) -> None:
        self._db = sqlite3.connect(file)
        self._db.executescript(_SETUP)
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

    def __exit__(self, *_: object) -> None:
        with closing(self._db):
            self._write()
            self._db.commit()

    def _write(self) -> None:
        self._db.executemany("INSERT INTO seen VALUES (?, ?, ?, ?, ?, ?, ?, ?)", self._rows)
        self._rows = []


class Collection:
    """The requests of all parts, each once.

    A request that a broker has forwarded is also in the controller's log, and a line may be in a log and in a rotated
    copy of it.
    """

    def __init__(self, folder: Path) -> None:
        """Read the parts in a folder, which the caller removes."""
        self._db = sqlite3.connect(folder / "collection", isolation_level=None)
        self._db.executescript(_SETUP)
        for part in sorted(folder.glob(f"*.{PART}")):
            self._db.execute("ATTACH ? AS part", [str(part)])
            self._db.execute("INSERT INTO seen SELECT * FROM part.seen")
            self._db.execute("DETACH part")
        self._db.executescript(_INDEXES)
        self._clocks = [
            (*logs, round(statistics.median(ahead for *_, ahead in rows)))
            for logs, rows in groupby(self._db.execute(_CLOCKS), itemgetter(0, 1))
        ]
        furthest = max((abs(ahead) for *_, ahead in self._clocks), default=0)
        self._db.executemany("INSERT INTO twins VALUES (?)", list(self._twins(furthest + _NEAR_MS)))
        ((lines, once, self.forwarded),) = self._db.execute(_COUNTS)
        self.copies = lines - once

    def _twins(self, near: int) -> Iterator[tuple[bytes]]:
        """Yield the controller's lines that each stand for the same request as one line of a broker.

        Clients repeat what identifies a request, and not every broker's log is given. So a broker's line stands for the
        one that is nearest in time, and for no other.
        """
        ahead = {broker: ahead_ms for _, broker, ahead_ms in self._clocks}
        for _, rows in groupby(self._db.execute(_REPEATED), itemgetter(0)):
            of_controller, of_brokers = dict[bytes, int](), dict[bytes, tuple[int, int]]()
            for _, is_forwarded, completed_at, log, line in rows:
                if is_forwarded:
                    of_controller[line] = completed_at
                else:
                    of_brokers[line] = (completed_at + ahead.get(log, 0), log)
            left = sorted((at, line) for line, at in of_controller.items())
            agreeing = set[int]()  # logs whose clocks agree: their other lines have no counterpart
            for limit in (_SAME_MS, near):
                for at, log in sorted(found for found in of_brokers.values() if found[1] not in agreeing):
                    after = bisect_left(left, (at,))
                    around = range(max(after - 1, 0), min(after + 1, len(left)))
                    nearest = min(around, key=lambda place: abs(left[place][0] - at), default=None)
                    if nearest is not None and abs(left[nearest][0] - at) <= limit:
                        yield left.pop(nearest)[1:]
                        agreeing.add(log)

    def clock_differences(self, logs: Sequence[str]) -> list[ClockDifference]:
        """Return the clock differences between logs of these names, from requests that are in two of them.

        Each is the smallest possible lead of the clock of a controller's log over a broker's.
        """
        return [ClockDifference(logs[log], logs[other], ahead_ms) for log, other, ahead_ms in self._clocks]

    def in_order(self) -> Iterator[LoggedRequest]:
        """Yield each request once, ordered by the time at which it was received, then by the place in the log.

        Requests of the same time are in the order of the logs' beginnings.
        """
        begins = dict(self._db.execute("SELECT log, min(received_at) FROM seen GROUP BY log"))
        for _, rows in groupby(self._db.execute(_BY_TIME), itemgetter(0)):
            lines = set[bytes]()
            for *_, line, request in sorted(rows, key=lambda row: (begins[row[1]], row[1], row[2])):
                if line not in lines:
                    yield _decode(request)
                lines.add(line)

    def close(self) -> None:
        """Close the database."""
        self._db.close()


def _key(data: bytes) -> bytes:
    return blake2b(data, digest_size=_KEY_BYTES).digest()
