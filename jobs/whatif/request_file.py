"""The simulation and the what-ifs on a file of requests: it is decided line by line, for each question again."""

import logging
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO

from jobs.progress import progress
from jobs.whatif.candidates import read_quotas_of_file
from quota.admission.policy import Policy
from quota.callbacks.instance import check_callbacks
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadInput, NotFound
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision
from quota.settings import Settings
from quota.text import plural
from quota.whatif.effects import Period
from quota.whatif.rejected_algorithms import AlgorithmName, make_algorithm
from quota.whatif.simulation import simulate

_log = logging.getLogger(__name__)


def decide_file(
    settings: Settings, requests: str, quota_file: Path, name: AlgorithmName
) -> Iterator[Decision | DeadLetter]:
    """Decide each line of a file of requests, or of standard input (`-`), that is not blank, in their order."""
    algorithm = make_algorithm(name, settings.quota.window, Policy.of(settings).deduplication)
    check_callbacks(settings.quota.callbacks)
    quotas = read_quotas_of_file(quota_file, settings.quota.callbacks)
    with open_lines(requests) as lines:
        yield from simulate(lines, quotas, algorithm, settings.topics.requests, Policy.of(settings))


def open_lines(path: str) -> BinaryIO:
    """Open a file of lines, or standard input (`-`)."""
    if path == "-":
        return sys.stdin.buffer
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None


class FileRequests:
    """The requests of a file in the order of its lines, as decisions; each iteration reads the file."""

    outcome = "without quotas"
    withdrawn = frozenset[str]()

    def __init__(self, settings: Settings, file: str, period: Period, *, with_earlier: bool = False) -> None:
        """Limit the requests to those of a period, or also those before it."""
        self._settings, self.period = settings, period
        self._since = None if with_earlier else period.since
        self.source = self.path = file
        """`path` is the file to read: a copy if `source` can be read only once."""
        self.quotas = CallbackTimeline()
        """The quotas that decide them, by default none."""
        self._has_warned = False

    def __iter__(self) -> Iterator[Decision]:
        """Yield the decisions, or raise an error at the end if there are none; a warning counts invalid lines."""
        valid, in_period, errors, first_error = 0, 0, 0, ""
        settings = self._settings
        with open_lines(self.path) as lines, progress(f"reading {self.source}"):
            policy = Policy.of(settings)
            algorithm = make_algorithm(AlgorithmName.TOKEN_BUCKET, settings.quota.window, policy.deduplication)
            for answer in simulate(lines, self.quotas, algorithm, settings.topics.requests, policy):
                if isinstance(answer, DeadLetter):
                    errors += 1
                    first_error = first_error or f"line {answer.source.offset + 1}: {answer.error}"
                    continue
                valid += 1
                at = answer.timestamp
                until = self.period.until
                if (self._since is None or self._since <= at) and (until is None or at < until):
                    in_period += 1
                    yield answer
        if not valid:
            raise BadInput(f"{self.source}: " + (f"no line is a request; {first_error}" if errors else "empty"))
        if errors and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "%s: ignored %d of %d lines, which are not requests; %s",
                self.source,
                errors,
                valid + errors,
                first_error,
            )
        if not in_period:
            raise NotFound(f"{self.source}: it has {plural(valid, 'request')}, and none in that period")


@contextmanager
def open_requests(
    settings: Settings, file: str, period: Period, *, with_earlier: bool = False
) -> Iterator[FileRequests]:
    """Provide the requests of a file, or of standard input (`-`), which is saved."""
    requests = FileRequests(settings, file, period, with_earlier=with_earlier)
    if file != "-":
        yield requests
        return
    with NamedTemporaryFile(prefix="mutation-quota-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        requests.path = copy.name
        yield requests
