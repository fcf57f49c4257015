"""Reads a file of requests as decisions without quotas, in which every request is admitted."""

import logging

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from jobs.whatif.simulate import open_lines
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadInput, MutationQuotaError
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.settings import Settings
from quota.text import plural
from quota.whatif.rates import AlgorithmName, make_algorithm
from quota.whatif.simulation import simulate

_log = logging.getLogger(__name__)

_ROWS_PER_BATCH = 10_000
_COLUMNS = pa.schema([("decision", pa.binary())])


def read_requests(settings: Settings, file: str, since: int | None = None, until: int | None = None) -> pa.Table:
    """Read the requests of a file of JSON lines (`-`: standard input) into rows of `jobs.whatif.recorded.RECORDED`.

    Invalid lines are skipped, and a warning is logged. The rows are packed into Arrow batches, because a million of
    them would take gigabytes as objects.
    """
    valid, errors, rows, batches = 0, 0, list[bytes](), list[pa.RecordBatch]()
    first_error = ""
    with open_lines(file) as lines, Console(stderr=True).status(Text(f"reading {file}")):
        algorithm = make_algorithm(AlgorithmName.TOKEN_BUCKET, settings.quota.window)
        for answer in simulate(lines, CallbackTimeline(), algorithm, settings.topics.requests, settings.policy):
            if isinstance(answer, DeadLetter):
                errors += 1
                first_error = first_error or f"line {answer.source.offset + 1}: {answer.error}"
                continue
            valid += 1
            if (since is None or since <= answer.timestamp) and (until is None or answer.timestamp < until):
                rows.append(codec.encode(answer))
            if len(rows) == _ROWS_PER_BATCH:
                batches.append(_pack(rows))
                rows = []
    table = pa.Table.from_batches([*batches, _pack(rows)])
    if not valid:
        raise BadInput(f"{file}: " + (f"no line is a request; {first_error}" if errors else "empty"))
    if errors:
        _log.warning(
            "%s: ignored %d of %d lines, which are not requests; %s", file, errors, valid + errors, first_error
        )
    if not table.num_rows:
        raise MutationQuotaError(f"{file}: it has {plural(valid, 'request')}, and none in that period")
    return table


def _pack(rows: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(rows, pa.binary())], schema=_COLUMNS)
