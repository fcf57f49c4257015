"""The service that writes the audit's tables."""

from jobs.audit.query import start_audit
from jobs.metrics.health.endpoint import ServiceEndpoint
from jobs.metrics.queries import QueryHealth, QueryMetrics
from jobs.metrics.query_observer import QueryObserver
from jobs.services.session import deployment_session, run_queries
from jobs.stopping import stop_signals
from quota.settings import Settings


def run_audit(settings: Settings, *, once: bool, take_over: bool = False) -> None:
    """Audit until stopped, or with `once` all available records; `take_over` as for `Lease.claim`."""
    observer = QueryObserver()
    metrics, health = QueryMetrics(settings, observer), QueryHealth(settings, observer)
    with (
        ServiceEndpoint(settings.metrics, "audit", once=once) as endpoint,
        deployment_session(settings, "audit", enforcing=False, take_over=take_over) as run,
        endpoint.following(settings, metrics, health),
        stop_signals() as stop,
    ):
        query = start_audit(run, once=once, failures=metrics.upkeep_failures)
        observer.watch(run.spark, [query], stop)
        run_queries(stop, query, poll=observer.poll)
