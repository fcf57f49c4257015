"""`backtest`: replays recorded requests with different quotas, windows or algorithms."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import SparkSession

from jobs.audit.tables.opening import open_known
from jobs.audit.tables.specs import DECISIONS, QUOTA_CHANGES
from jobs.spark.failures import query_errors
from jobs.spark.progress import command_session, with_progress
from jobs.whatif.candidates import parse_candidates
from jobs.whatif.effects import Candidate, compute_effects
from jobs.whatif.recorded import RecordedRequests, add_recorded_changes, load_file_requests, read_audited_requests
from jobs.whatif.requests import read_requests
from jobs.whatif.result import count_effects
from quota.callbacks.loading import check_callbacks
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import MutationQuotaError
from quota.settings import Settings
from quota.whatif.result import Result

NAME = "backtest"


def backtest(
    settings: Settings, candidates: Sequence[str], since: int | None, until: int | None, file: str | None = None
) -> Result:
    """Replay audited requests, with the recorded quotas and with each candidate; or the requests of a file.

    Args:
        settings: the settings; their window, exempt users and callbacks apply unless a candidate has its own.
        candidates: the candidates, as on the command line.
        since: the start of the counted period [epoch ms]; earlier requests only charge the buckets.
        until: the end of the period, exclusive [epoch ms].
        file: a file of requests that replaces the audit's tables; its requests have no recorded decisions.

    Raises:
        BadInput: a candidate or the file cannot be read.
        MutationQuotaError: the tables cannot be reached, do not exist, or have no decisions in this period.
    """
    check_callbacks(settings.quota.callbacks)
    if file is None:
        recorded = CallbackTimeline(settings.quota.callbacks)
        parsed = parse_candidates(candidates, recorded, settings)
        for table in (DECISIONS, QUOTA_CHANGES):
            open_known(settings, table)  # before the start of Spark
        with what_if_session(settings, NAME) as spark:
            add_recorded_changes(recorded, spark, settings)
            requests = read_audited_requests(spark, settings, until=until)
            return evaluate_candidates(requests, parsed, since, until, replayed=0)
    parsed = parse_candidates(candidates, None, settings)
    table = read_requests(settings, file, until=until)
    with what_if_session(settings, NAME) as spark:
        requests = load_file_requests(spark, table, file, in_period=until is not None)
        return evaluate_candidates(requests, parsed, since, until)


@contextmanager
def what_if_session(settings: Settings, name: str) -> Iterator[SparkSession]:
    """Provide a Spark session for a what-if evaluation.

    Raises:
        MutationQuotaError: Spark failed; the message is one line with the reason and advice.
    """
    log = settings.storage.local_folder("logs") / f"{name}.log"
    with command_session(settings, name, log, delta=True) as spark, query_errors(name):
        spark.conf.set("spark.sql.codegen.wholeStage", "true")  # worthwhile for the many rows of a table
        yield spark


def evaluate_candidates(
    requests: RecordedRequests,
    candidates: Sequence[Candidate],
    since: int | None = None,
    until: int | None = None,
    replayed: int | None = None,
) -> Result:
    """Return the outcome of requests as recorded, and with each candidate.

    Args:
        requests: the requests, with earlier ones that only charge the buckets.
        candidates: the candidates.
        since: the start of the counted period [epoch ms].
        until: the end of the counted period, at which throttle times are cut [epoch ms].
        replayed: the number of the candidate that should reproduce the recorded decisions; None if there is none.
    """
    effects = compute_effects(requests.decisions, candidates, since)
    names = [each.name for each in candidates]
    spark = requests.decisions.sparkSession
    result = with_progress(spark, "replaying", lambda: count_effects(effects, requests.outcome, names, replayed, until))
    if result is None:
        in_period = since is not None or requests.in_period
        raise MutationQuotaError(
            f"there are no decisions to replay: {requests.origin} has none"
            + (" in that period" if in_period else ", run mutation-quota audit first")
        )
    return result
