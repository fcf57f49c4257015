"""The writers of the files of checkpoints, and the holders of their leases.

In a folder, each process of a job has a group of its own, which the kernel gives to the files that it creates. In S3,
each has a name of its own, which the server logs with its requests.
"""

import itertools
import json
import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from jobs.background import background
from jobs.query_names import AUDIT, ENFORCE

WITHOUT_LEASE = "files of a checkpoint whose writer did not hold the lease"

_LOOK_SECONDS = 1.0
"""Spark keeps the files of 100 batches, and a lease those of its last holder: none is gone before it is seen."""

_PUT = re.compile(r'"PUT \S*/(leases|checkpoints)/(enforce|audit)/([^\s?]+)\S* \S+" 200 "([\w-]+)')


class Write(NamedTuple):
    """A file of a query, as it was written once. The first write of a lease is its claim."""

    query: str
    path: str
    writer: int | str
    at: float
    """The time, seconds since the epoch, or the place among the requests to S3."""


class WrittenFiles:
    """Watches the files of a storage root in a folder."""

    def __init__(self, root):
        """Take the root; `groups` are for the jobs on it, which only root can start."""
        self.groups = itertools.count(20_000)
        self.writes = set()
        self.claims = set()
        self._root = Path(root)

    @contextmanager
    def watching(self):
        """Look at all files again and again inside the block."""

        def watch(stop):
            while not stop.wait(_LOOK_SECONDS):
                self.look()

        with background(watch, "writers"):
            yield
        self.look()

    def look(self):
        """Record the files that exist. Between the end of a holder and the next claim, this misses no claim."""
        for query in (ENFORCE, AUDIT):
            for file in self._root.glob(f"leases/{query}/[0-9]*"):
                with suppress(FileNotFoundError), file.open(encoding="utf-8") as lease:
                    group, began = os.fstat(lease.fileno()).st_gid, json.load(lease)["started_at"] / 1000
                    self.claims.add(Write(query, str(file), group, began))
            for folder, _, names in os.walk(self._root / "checkpoints" / query):
                for file in (Path(folder, name) for name in names):
                    with suppress(FileNotFoundError):
                        found = file.stat()
                        self.writes.add(Write(query, str(file), found.st_gid, found.st_mtime))


def put_files(log):
    """Return the writes and the claims in the log of an S3 server (`tests.support.s3`)."""
    writes, claims = [], {}
    for at, (kind, query, path, writer) in enumerate(_PUT.findall(log.read_text(encoding="utf-8"))):
        write = Write(query, path, writer, at)
        if kind == "checkpoints":
            writes.append(write)
        else:
            claims.setdefault((query, path), write)  # the later ones are renewals
    return writes, claims.values()


def without_lease(writes, claims):
    """Return the writes by a process that was not the last one, at that time, to have acquired the query's lease."""
    claims, holders, found = set(claims), {}, []
    for write in sorted([*claims, *writes], key=lambda write: write.at):
        if write in claims:
            holders[write.query] = write.writer
        elif holders.get(write.query) != write.writer:
            found.append(write)
    return found
