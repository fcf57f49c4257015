"""The time to import a request log, compared with grep for the same lines: `make bench-observe`."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from tempfile import TemporaryDirectory

from quota.errors import MutationQuotaError
from tests.evidence.pages import Table, progress, terminal
from tests.support.programs import command_line
from tests.support.request_log import created, deleted, line

GREP = ("grep", "-cE", '"(CREATE_TOPICS|CREATE_PARTITIONS|DELETE_TOPICS)"')
"""Counts the lines of mutations."""

GOAL = 3.0
"""Upper bound of the import's time, divided by that of grep."""

_EVERY = 10
"""One line in this many is of a mutation."""

_CHUNK = 10_000
_COLUMNS = 120


def main() -> None:
    """Make a log, import it and look through it in turn, and print a table."""
    parser = argparse.ArgumentParser(prog="bench-observe", description=__doc__)
    parser.add_argument("--lines", type=int, default=10_000_000, help="lines of the log (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each side (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="for the log, of about 900 bytes a line")
    options = parser.parse_args()
    console = terminal(_COLUMNS)
    notify = progress(console)
    try:
        with TemporaryDirectory(prefix="mutation-quota-", dir=options.folder) as name:
            log = Path(name) / "kafka-request.log"
            size = _write(log, options.lines)
            notify(f"a log of {options.lines:,} lines, {size / 2**30:.1f} GB")
            taken: dict[str, list[float]] = {"grep": [], "import": []}
            for turn in range(options.rounds):
                taken["grep"].append(_seconds(*GREP, str(log)))
                out = Path(name) / f"requests-{turn}.jsonl"
                taken["import"].append(
                    _seconds(*command_line("observe", "import", str(log), "--output-file", str(out)))
                )
                _check(out, options.lines // _EVERY)
                out.unlink()
                notify(f"round {turn + 1}: grep {taken['grep'][-1]:.1f} s, import {taken['import'][-1]:.1f} s")
    except MutationQuotaError as error:
        sys.exit(f"bench-observe: {error}")
    except KeyboardInterrupt:
        sys.exit("bench-observe: interrupted")
    grep, imported = (median(each) for each in taken.values())
    mutations = options.lines // _EVERY
    memory = getrusage(RUSAGE_CHILDREN).ru_maxrss / 1024
    rows = (
        ("grep for the same lines", f"{grep:.1f}", "-"),
        ("observe import", f"{imported:.1f}", f"{imported / grep:.1f} (goal: at most {GOAL:g})"),
    )
    console.print(Table("a request log", ("", "s", "ratio"), rows, words=1).drawn())
    console.print(
        f"{options.lines:,} lines, {mutations:,} mutations, {size / 2**30:.1f} GB, {os.cpu_count()} cores: "
        f"{imported / mutations * 1e6:.0f} µs a mutation; the largest process took {memory:,.0f} MB."
    )


def _check(out: Path, expected: int) -> None:
    """Check that the import has `expected` requests: none is lost or doubled."""
    with out.open("rb") as lines:
        found = sum(1 for _ in lines)
    if found != expected:
        raise MutationQuotaError(f"{found} requests were imported, of {expected}")


def _write(log: Path, lines: int) -> int:
    """Write a log, and return its size in bytes."""
    with log.open("wb") as file:
        for chunk in _chunks(lines):
            file.write(chunk)
        return file.tell()


def _chunks(lines: int) -> Iterator[bytes]:
    """Yield the lines in chunks: mostly fetches of a consumer with six partitions."""
    began = datetime(2026, 11, 22, tzinfo=UTC)
    partitions = [{"partition": each, "fetchOffset": 10**9 + each, "partitionMaxBytes": 1048576} for each in range(6)]
    asked = {"maxWaitMs": 500, "minBytes": 1, "topics": [{"topicId": "a" * 22, "partitions": partitions}]}
    fetched = line("{time}", 1, asked, {"errorCode": 0, "sessionId": 0, "responses": []})
    for first in range(0, lines, _CHUNK):
        time_ = (began + timedelta(milliseconds=first)).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
        chunk = []
        other = fetched.replace(b"{time}", time_.encode())
        for number in range(first, min(first + _CHUNK, lines), _EVERY):
            user = f"User:user-{number % 997}"
            if number % (4 * _EVERY):
                mutation = created(time_, (f"topic-{number}", 12), correlation_id=number, principal=user)
            else:
                mutation = deleted(time_, f"topic-{number - _EVERY}", correlation_id=number, principal=user)
            chunk += [mutation, *[other] * (_EVERY - 1)]
        yield b"".join(chunk)


def _seconds(*command: str) -> float:
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise MutationQuotaError(f"{command[0]}: {done.stderr.decode()}")
    return time.monotonic() - began


if __name__ == "__main__":
    main()
