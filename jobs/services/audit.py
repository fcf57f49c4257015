"""The audit and the minutes as long-running programs."""

from jobs.audit.minutes import start_minutes
from jobs.audit.query import start_audit
from jobs.metrics.endpoint import MetricsEndpoint
from jobs.services.prepared import prepared_session, run_queries
from jobs.spark.queries import stop_signals
from jobs.spark.session import working_session
from quota.settings.model import Settings


def run_audit(settings: Settings, *, once: bool) -> None:
    """Audit until stopped, or until all records that are there are kept."""
    with (
        stop_signals() as stop,
        MetricsEndpoint(settings.metrics, once=once) as endpoint,
        prepared_session(settings, "audit", enforcing=False) as spark,
        endpoint.following(settings, decides=False) as watch,
    ):
        query = start_audit(spark, settings, once=once)
        watch([query])
        run_queries(stop, query)


def run_minutes(settings: Settings, *, once: bool) -> None:
    """Add up minutes until stopped, or until all decisions that are kept are in them; that needs no Kafka.

    Raises:
        MutationQuotaError: the audit has kept nothing yet, or the query cannot go on or failed.
    """
    with (
        stop_signals() as stop,
        MetricsEndpoint(settings.metrics, once=once) as endpoint,
        working_session(settings, "minutes") as spark,
        endpoint.following(settings, decides=False) as watch,
    ):
        query = start_minutes(spark, settings, once=once)
        watch([query])
        run_queries(stop, query)
