"""The services that write the audit's tables: `audit` and `minutes`."""

from jobs.audit.minutes import NAME as MINUTES
from jobs.audit.minutes import start_minutes
from jobs.audit.query import start_audit
from jobs.metrics.health.endpoint import ServiceEndpoint
from jobs.metrics.health.queries import QueryHealth
from jobs.metrics.queries import QueryMetrics
from jobs.services.queries import run_queries
from jobs.services.session import check_root, deployment_session, hold_leases
from jobs.services.signals import stop_signals
from jobs.spark.session import session
from quota.settings import Settings


def run_audit(settings: Settings, *, once: bool, take_over: bool = False) -> None:
    """Audit until stopped.

    Args:
        settings: the settings of the deployment.
        once: write all available records to the tables, then exit.
        take_over: do not wait for the lease of a process on another machine.

    Raises:
        MutationQuotaError: the query cannot start or has failed; the message contains the reason and advice.
    """
    metrics, health = QueryMetrics(settings), QueryHealth(settings)
    with (
        ServiceEndpoint(settings.metrics, "audit", once=once) as endpoint,
        deployment_session(settings, "audit", enforcing=False, take_over=take_over) as spark,
        endpoint.following(settings, metrics, health),
        stop_signals() as stop,
    ):
        query = start_audit(spark, settings, once=once, failures=metrics.upkeep_failures)
        metrics.watch([query])
        health.watch(spark.sparkContext, [query], stop)
        run_queries(stop, query)


def run_minutes(settings: Settings, *, once: bool, take_over: bool = False) -> None:
    """Aggregate decisions by minute until stopped, without Kafka.

    Args:
        settings: the settings of the deployment.
        once: include all decisions of the audit's table, then exit.
        take_over: do not wait for the lease of a process on another machine.

    Raises:
        MutationQuotaError: the audit has not written any table yet, or the query cannot start or failed.
    """
    check_root(settings, [MINUTES])
    metrics, health = QueryMetrics(settings), QueryHealth(settings)
    with (
        ServiceEndpoint(settings.metrics, "minutes", once=once) as endpoint,
        session(settings, "minutes", delta=True) as spark,
        hold_leases(spark, settings, [MINUTES], take_over=take_over),
        endpoint.following(settings, metrics, health),
        stop_signals() as stop,
    ):
        query = start_minutes(spark, settings, once=once, failures=metrics.upkeep_failures)
        metrics.watch([query])
        health.watch(spark.sparkContext, [query], stop)
        run_queries(stop, query)
