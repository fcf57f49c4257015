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
from quota.records.decision import Decision
from quota.settings import Settings
from quota.text import plural
from quota.whatif.rates import AlgorithmName, make_algorithm
from quota.whatif.simulation import simulate

_log = logging.getLogger(__name__)

_ROWS_PER_BATCH = 10_000
_COLUMNS = pa.schema([("decision", pa.binary())])


def read_requests(settings: Settings, file: str, since: int | None = None, until: int | None = None) -> pa.Table:
    """Read the requests of a file of JSON lines (`-`: standard input) into rows of `jobs.whatif.recorded.RECORDED`.

    Invalid lines are skipped, and a warning is logged.
    """
    requests = _Requests()
    with open_lines(file) as lines, Console(stderr=True).status(Text(f"reading {file}")):
        algorithm = make_algorithm(AlgorithmName.TOKEN_BUCKET, settings.quota.window)
        for answer in simulate(lines, CallbackTimeline(), algorithm, settings.topics.requests, settings.policy):
            if isinstance(answer, DeadLetter):
                requests.skip(answer)
            else:
                requests.valid += 1
                if (since is None or since <= answer.timestamp) and (until is None or answer.timestamp < until):
                    requests.add(answer)
    table = requests.to_table()
    first = requests.first_error
    if not requests.valid:
        raise BadInput(f"{file}: " + (f"no line is a request; {first}" if first else "empty"))
    if requests.invalid:
        lines_read = requests.valid + requests.invalid
        _log.warning(
            "%s: ignored %d of %d lines, which are not requests; %s", file, requests.invalid, lines_read, first
        )
    if not table.num_rows:
        raise MutationQuotaError(f"{file}: it has {plural(requests.valid, 'request')}, and none in that period")
    return table


class _Requests:
    """The requests read so far, in Arrow batches, because a million of them would take gigabytes as objects."""

    def __init__(self) -> None:
        self.valid = self.invalid = 0
        self.first_error: str | None = None
        self._rows: list[bytes] = []
        self._batches: list[pa.RecordBatch] = []

    def skip(self, letter: DeadLetter) -> None:
        self.invalid += 1
        self.first_error = self.first_error or f"line {letter.source.offset + 1}: {letter.error}"

    def add(self, decision: Decision) -> None:
        self._rows.append(codec.encode(decision))
        if len(self._rows) == _ROWS_PER_BATCH:
            self._pack()

    def to_table(self) -> pa.Table:
        self._pack()
        return pa.Table.from_batches(self._batches, _COLUMNS)

    def _pack(self) -> None:
        self._batches.append(pa.RecordBatch.from_arrays([pa.array(self._rows, pa.binary())], schema=_COLUMNS))
        self._rows.clear()
