"""A file of requests for a what-if: what `simulate` takes, each request admitted since there are no quotas."""

import logging

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from jobs.whatif.simulate import open_lines
from quota.algorithms.registry import AlgorithmName, make_algorithm
from quota.errors import BadInput, MutationQuotaError
from quota.records import codec
from quota.records.decision import DeadLetter
from quota.settings.model import Settings
from quota.timeline.timeline import QuotaTimeline
from quota.whatif.recorded import RecordedDecision
from quota.whatif.simulation import simulate

_log = logging.getLogger(__name__)

_ROWS_A_BATCH = 10_000
_COLUMNS = pa.schema([("decision", pa.binary())])


def read_requests(settings: Settings, file: str, since: int | None = None, until: int | None = None) -> pa.Table:
    """The requests of JSON lines (`-`: of standard input), as `jobs.whatif.recorded.RECORDED` has them.

    What is no request does not count, which is said in a line on standard error.

    Args:
        settings: what a request may be.
        file: each line has a `timestamp`.
        since: those from then on (epoch ms).
        until: and before then.

    Raises:
        BadInput: it cannot be read, or holds no requests at all.
        MutationQuotaError: it holds none of that time.
    """
    kept = _Kept()
    with open_lines(file) as lines, Console(stderr=True).status(Text(f"reading {file}")):
        algorithm = make_algorithm(AlgorithmName.TOKEN_BUCKET, settings.quota.window)
        for answer in simulate(lines, QuotaTimeline(), algorithm, settings.topics.requests, settings.policy):
            if isinstance(answer, DeadLetter):
                kept.pass_over(answer)
            else:
                kept.requests += 1
                if (since is None or since <= answer.timestamp) and (until is None or answer.timestamp < until):
                    kept.keep(RecordedDecision.of(answer))
    table = kept.table()
    if not kept.requests:
        raise BadInput(f"{file}: " + (f"not one line is a request; {kept.first}" if kept.first else "empty"))
    if kept.others:
        lines_read = kept.requests + kept.others
        _log.warning(
            "%s: %d of %d lines are no requests and do not count; %s", file, kept.others, lines_read, kept.first
        )
    if not table.num_rows:
        raise MutationQuotaError(f"{file}: none of its {kept.requests} requests is of that time")
    return table


class _Kept:
    """What was read, packed as it comes: a million requests would take gigabytes as objects."""

    def __init__(self) -> None:
        self.requests = self.others = 0
        self.first: str | None = None
        self._rows: list[bytes] = []
        self._batches: list[pa.RecordBatch] = []

    def pass_over(self, letter: DeadLetter) -> None:
        self.others += 1
        self.first = self.first or f"line {letter.source.offset + 1}: {letter.error}"

    def keep(self, decision: RecordedDecision) -> None:
        self._rows.append(codec.encode(decision))
        if len(self._rows) == _ROWS_A_BATCH:
            self._pack()

    def table(self) -> pa.Table:
        self._pack()
        return pa.Table.from_batches(self._batches, _COLUMNS)

    def _pack(self) -> None:
        self._batches.append(pa.RecordBatch.from_arrays([pa.array(self._rows, pa.binary())], schema=_COLUMNS))
        self._rows.clear()
