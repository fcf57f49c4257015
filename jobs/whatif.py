"""`backtest`: read the tables, judge again, and tell."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from jobs.backtest import effects
from jobs.backtest_candidates import candidates_of
from jobs.backtest_result import result_of
from jobs.failures import advised
from jobs.progress import with_progress
from jobs.quota_history import quotas_of
from jobs.running import failing_as
from jobs.session import end_session, spark_session
from jobs.storage import local_folder
from jobs.tables import DECISIONS, QUOTA_CHANGES, read_table
from quota.backtest_result import Result
from quota.callbacks.loading import check as check_callbacks
from quota.callbacks.quotas import CallbackQuotas
from quota.errors import MutationQuotaError
from quota.settings import Settings

NAME = "backtest"


def backtest(settings: Settings, candidates: Sequence[str], since: int | None, until: int | None) -> Result:
    """Judge the audited decisions again by each candidate, and by the quotas that were recorded.

    Args:
        settings: of the deployment; its windows, exempt users and callbacks hold where a candidate says nothing else.
        candidates: as the command line names them.
        since: counts from then on (epoch ms); what was before has filled and emptied the buckets.
        until: up to then, not included.

    Raises:
        BadInput: a candidate cannot be read.
        MutationQuotaError: there are no tables, or no decisions in that time.
    """
    check_callbacks(settings.quota.callbacks)
    candidates_of(candidates, CallbackQuotas(settings.quota.callbacks), settings)  # before Spark starts
    spark = spark_session(settings, f"mutation-quota {NAME}", local_folder(settings, "logs") / f"{NAME}.log")
    try:
        with advised(settings), failing_as(NAME):
            spark.conf.set("spark.sql.codegen.wholeStage", "true")  # a table is long enough to write code for
            return judged_again(spark, settings, candidates, since, until)
    finally:
        end_session(spark)


def judged_again(
    spark: SparkSession, settings: Settings, candidates: Sequence[str], since: int | None, until: int | None
) -> Result:
    """The same on a session that is there."""
    tried = candidates_of(candidates, _recorded_quotas(spark, settings), settings)
    decisions = read_table(spark, settings, DECISIONS)
    if until is not None:
        decisions = decisions.where(F.col("timestamp") < F.timestamp_millis(F.lit(until)))
    counted = effects(decisions, tried, since)
    names = [each.name for each in tried]
    result = with_progress(spark, "judging again", lambda: result_of(counted, names, repeating=0))
    if result is None:
        raise MutationQuotaError(
            "there are no decisions to judge again: the table holds none"
            + (" of that time" if (since, until) != (None, None) else ", run mutation-quota audit first")
        )
    return result


def _recorded_quotas(spark: SparkSession, settings: Settings) -> CallbackQuotas:
    changes = read_table(spark, settings, QUOTA_CHANGES).orderBy("timestamp", "source.partition", "source.offset")
    rows = (row.asDict(recursive=True) for row in _in_ms(changes).toLocalIterator())
    return quotas_of(rows, settings.quota.callbacks)


def _in_ms(rows: DataFrame) -> DataFrame:
    times = [field.name for field in rows.schema if isinstance(field.dataType, TimestampType)]
    return rows.withColumns({name: F.unix_millis(F.col(name)) for name in times})
