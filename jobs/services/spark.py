"""Spark for a deployment: its session, the claims on the topics and the storage root, and the queries that run."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from jobs.audit.query import start_audit
from jobs.audit.upkeep_schedule import stopping_upkeep
from jobs.enforce.query import start_enforce
from jobs.metrics.queries import QueryObserver
from jobs.query_names import AUDIT, ENFORCE
from jobs.services.monitors import CheckpointMonitor, UserTopicsMonitor
from jobs.spark.failures import query_errors
from jobs.spark.queries import await_queries, stop_after_batch, stop_all
from jobs.spark.session import jvm_pid, kill_jvm, spark_session
from jobs.storage.deployment import Deployment, TopicGone, claim_storage, claim_topics
from jobs.storage.files import DeploymentSession, open_files
from jobs.storage.holder import Holder
from jobs.storage.lease import Lease, check_free, hold_lease
from jobs.storage.stored_files import QUICK, check_store, stored_files
from quota.kafka.timing import Deadline
from quota.kafka.topics.preparation import prepare_topics
from quota.kafka.topics.specs import user_topic_names
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.settings import Settings
from schemas.buckets import STATE_VERSION

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.2


@contextmanager
def claimed_deployment(
    settings: Settings, name: str, log: Path | None = None, *, take_over: bool = False
) -> Iterator[DeploymentSession]:
    """Provide the session of a program; its topics are prepared, and the storage root belongs to them.

    What can be checked without a JVM is checked before one is started. The output of the JVM and the workers goes to
    the file `log`, standard error by default. A program of another name than `audit` runs the enforcing query; the
    audit alone needs no permission to describe the topics of requests.
    """
    topics = settings.topics
    needed = [topics.decisions, topics.dead_letters, topics.quotas, *([topics.requests] if name != AUDIT else [])]
    queries = [AUDIT] if name == AUDIT else [ENFORCE, *([AUDIT] if settings.enforce.with_audit else [])]
    settings.kafka.security.java()  # raises if Spark's own clients have no login
    check_root(settings, queries)
    admin = TopicAdmin(settings.kafka.connection, settings.kafka.timeout_seconds)
    topic_ids = _prepare(settings, needed, admin)
    with ExitStack() as stack:
        spark = stack.enter_context(spark_session(settings, name, log))
        with query_errors(queries[0]):
            session = stack.enter_context(DeploymentSession(spark, settings, open_files(spark, settings), admin))
        stack.enter_context(hold_leases(session, queries, take_over=take_over))
        with query_errors(name):
            deployment = _claim(session, topic_ids, needed)
        yield replace(session, deployment=deployment)


def check_root(settings: Settings, queries: Sequence[str]) -> None:
    """Check a storage root before Spark is started, as far as this is possible within a second."""
    check_store(settings)
    if settings.storage.is_s3 or "://" not in settings.storage.root:  # only Hadoop may support other schemes
        for query in queries:
            check_free(stored_files(settings, QUICK), query)


@contextmanager
def hold_leases(session: DeploymentSession, queries: Sequence[str], *, take_over: bool = False) -> Iterator[None]:
    """Hold the leases of queries inside the block, so that other processes cannot run them; stop them at its end.

    The JVM is killed if another process acquires one of the leases. `take_over` is as for `Lease.claim`.
    """
    me = Holder.here(jvm_pid(session.spark))
    on_loss, finish = partial(kill_jvm, session.spark, me.jvm.pid), partial(stop_all, session.spark)
    with ExitStack() as leases:
        for query in queries:
            lease = Lease(session.files, query, session.settings.storage.lease_seconds, me)
            with query_errors(query):
                leases.enter_context(hold_lease(lease, on_loss, finish, take_over=take_over))
        yield


def _prepare(settings: Settings, needed: Sequence[str], admin: TopicAdmin) -> dict[str, str]:
    return {name: topic.topic_id for name, topic in prepare_topics(settings, needed, admin).items()}


def _claim(session: DeploymentSession, topic_ids: Mapping[str, str], needed: Sequence[str]) -> Deployment:
    """Claim the storage root; retry while a topic is missing, which a broker that has just started may not know yet."""
    settings, deadline = session.settings, Deadline(session.settings.kafka.timeout_seconds)
    if settings.topics.requests not in needed:
        return claim_topics(session.files, settings, topic_ids)
    while True:
        try:
            deployment = claim_storage(session.files, settings, topic_ids)
        except TopicGone:
            if deadline.has_passed:
                raise
            time.sleep(_RETRY_SECONDS)
            topic_ids = _prepare(settings, needed, session.topics)
        else:
            break
    if settings.topics.user_topic_prefix and not user_topic_names(topic_ids, settings):
        _log.warning(
            "no user has their own topic yet, or this principal may not describe them: mutation-quota user-topics "
            "prepare creates them and prints the ACLs"
        )
    return deployment


def start_queries(session: DeploymentSession, failures: Counter[str]) -> list[StreamingQuery]:
    """Start the enforcing query, and the audit if `enforce.with_audit` is set. `failures` counts failed upkeep."""
    # The audit starts first: it has more checks that may fail.
    audits = [start_audit(session, failures=failures)] if session.settings.enforce.with_audit else []
    return [start_enforce(session), *audits]


def observing(session: DeploymentSession, observer: QueryObserver) -> Callable[[], None]:
    """Return a function to poll once a second while observed queries run, one of which is the enforcing query."""
    checkpoint = CheckpointMonitor(session.files, observer, ENFORCE, STATE_VERSION, session.deployment)
    user_topics = UserTopicsMonitor(session.files, session.settings, session.topics)

    def poll() -> None:
        observer.poll()
        checkpoint.poll()
        user_topics.poll()

    return poll


def run_queries(stop: threading.Event, *queries: StreamingQuery, poll: Callable[[], None] = lambda: None) -> None:
    """Log the names of the queries and run them (`jobs.spark.queries.await_queries`), unless `stop` is set already."""
    if stop.is_set():
        stop_after_batch(queries)
        raise KeyboardInterrupt
    _log.info("running: %s", ", ".join(query.name for query in queries))
    with stopping_upkeep(stop):
        await_queries(stop, queries, poll)
