"""`backtest`: read the requests, judge again, and tell."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import SparkSession

from jobs.spark.progress import with_progress
from jobs.spark.queries import query_errors
from jobs.spark.session import working_session
from jobs.whatif.candidates import parse_candidates
from jobs.whatif.effects import Candidate, effects
from jobs.whatif.recorded import RecordedRequests, add_recorded, audited_requests, requests_of_file
from jobs.whatif.requests import read_requests
from jobs.whatif.result import count_effects
from quota.callbacks.loading import check_callbacks
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import MutationQuotaError
from quota.settings.model import Settings
from quota.settings.storage import local_folder
from quota.whatif.result import Result

NAME = "backtest"


def backtest(
    settings: Settings, candidates: Sequence[str], since: int | None, until: int | None, file: str | None = None
) -> Result:
    """Judge the audited decisions again by each candidate, and by the quotas that were recorded; or those of a file.

    Args:
        settings: of the deployment; its windows, exempt users and callbacks hold where a candidate says nothing else.
        candidates: as the command line names them.
        since: counts from then on (epoch ms); what was before has filled and emptied the buckets.
        until: up to then, not included.
        file: of requests, in place of the audit's tables; nobody has judged those.

    Raises:
        BadInput: a candidate or the file cannot be read.
        MutationQuotaError: there are no tables, or no decisions in that time.
    """
    check_callbacks(settings.quota.callbacks)
    if file is None:
        recorded = CallbackTimeline(settings.quota.callbacks)
        tried = parse_candidates(candidates, recorded, settings)  # before Spark starts
        with what_if_session(settings, NAME) as spark:
            add_recorded(recorded, spark, settings)
            return judge_requests(audited_requests(spark, settings, until=until), tried, since, until, repeating=0)
    tried = parse_candidates(candidates, None, settings)
    requests = read_requests(settings, file, until=until)
    with what_if_session(settings, NAME) as spark:
        return judge_requests(requests_of_file(spark, requests, file, of_a_time=until is not None), tried, since, until)


@contextmanager
def what_if_session(settings: Settings, name: str) -> Iterator[SparkSession]:
    """A session for a command that judges again, and ends then.

    Raises:
        MutationQuotaError: Spark fails: one line, why, and what to do.
    """
    log = local_folder(settings, "logs") / f"{name}.log"
    with working_session(settings, name, log) as spark, query_errors(name):
        spark.conf.set("spark.sql.codegen.wholeStage", "true")  # a table is long enough to write code for
        yield spark


def judge_requests(
    traffic: RecordedRequests,
    tried: Sequence[Candidate],
    since: int | None = None,
    until: int | None = None,
    repeating: int | None = None,
) -> Result:
    """What requests of a time (epoch ms) came to, and come to by each candidate.

    Args:
        traffic: the requests; earlier ones fill and empty the buckets.
        tried: the candidates.
        since: when they begin to count.
        until: before when the latest of them were made; waits end then.
        repeating: the candidate that is to give what was recorded, if one is.

    Raises:
        MutationQuotaError: there are none.
    """
    counted = effects(traffic.decisions, tried, since)
    names = [each.name for each in tried]
    spark = traffic.decisions.sparkSession
    result = with_progress(spark, "judging again", lambda: count_effects(counted, traffic.got, names, repeating, until))
    if result is None:
        timed = since is not None or traffic.of_a_time
        raise MutationQuotaError(
            f"there are no decisions to judge again: {traffic.held_by} holds none"
            + (" of that time" if timed else ", run mutation-quota audit first")
        )
    return result
