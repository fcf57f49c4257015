"""The jobs as services: prepared, run until they end or are stopped."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs.audit.minutes import start_minutes
from jobs.audit.query import start_audit
from jobs.buckets.choice import Wanted
from jobs.buckets.listing import BucketList, bucket_list
from jobs.buckets.moving import begin_with_buckets, saved_buckets
from jobs.buckets.saved import SavedBuckets, read_buckets
from jobs.buckets.store import newest_buckets
from jobs.cli.times import now_ms
from jobs.enforce.query import NAME, start_enforce
from jobs.metrics.endpoint import MetricsEndpoint
from jobs.spark.queries import failing_as, run_until, stop_signals
from jobs.spark.working_session import working_session
from jobs.storage.checkpoint import FirstBatch, begin_anew
from jobs.storage.deployment import TopicGone, claim_storage
from jobs.storage.files import Files
from jobs.storage.user_topics import UserTopicsWatch
from quota.callbacks.loading import check as check_callbacks
from quota.kafka.quota_log import read_log
from quota.kafka.topics.specs import prepare_topics, user_topics
from quota.settings.loading import Settings
from schemas.buckets import STATE_VERSION

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.2


def run_enforce(settings: Settings, *, once: bool, anew: bool = False, buckets: Path | None = None) -> None:
    """Enforce until stopped, or until all requests that are there are decided; with the audit, if the settings say so.

    Args:
        settings: the settings.
        once: end when all is decided; the audit comes after the decisions then, so that it keeps them all.
        anew: begin with full buckets and the oldest requests, whatever the checkpoint holds.
        buckets: begin anew with those of this file instead, behind the requests that they know.

    Raises:
        MutationQuotaError: a query cannot start, or failed; in one line, with what to do.
    """
    check_callbacks(settings.quota.callbacks)
    saved = read_buckets(buckets) if buckets else None
    with (
        stop_signals() as stop,
        MetricsEndpoint(settings.metrics, once=once) as endpoint,
        prepared_session(settings, "enforce") as spark,
        endpoint.following(settings, decides=True) as watch,
    ):
        _tell_callback(settings)
        if saved:
            begin_with_buckets(spark, settings, saved)
        elif anew:
            begin_anew(Files(spark, settings), NAME)
        queries = [start_enforce(spark, settings, once=True)] if once else start_queries(spark, settings)
        watch(queries)
        _run(stop, *queries, look=looking_after(spark, settings, queries))
        if once and settings.enforce.with_audit and not stop.is_set():
            _run(stop, start_audit(spark, settings, once=True))


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
        _run(stop, query)


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
        _run(stop, query)


def export_buckets(settings: Settings, file: Path) -> SavedBuckets:
    """Write the buckets of the enforcing query, which is stopped, to a file; they, too, are returned.

    Raises:
        MutationQuotaError: there are none, or the file is there already.
    """
    with working_session(settings, "buckets export") as spark:
        saved = saved_buckets(spark, settings)
    saved.write(file)
    return saved


def list_buckets(settings: Settings, wanted: Wanted) -> BucketList:
    """The buckets of the enforcing query as of its newest finished batch, and of now; it may run meanwhile.

    Raises:
        MutationQuotaError: there is no such batch.
    """
    with working_session(settings, "buckets list") as spark:
        files, window = Files(spark, settings), settings.quota.window
        return newest_buckets(spark, files, lambda saved: bucket_list(saved, wanted, now_ms(), window))


@contextmanager
def prepared_session(
    settings: Settings, name: str, log: Path | None = None, *, enforcing: bool = True
) -> Iterator[SparkSession]:
    """A session on topics and a storage root that belong together.

    Args:
        settings: the settings.
        name: what runs.
        log: a file for what the JVM and the workers write, in place of standard error.
        enforcing: whether requests are read; whoever does not read them need not be allowed to see their topics.

    Raises:
        MutationQuotaError: they do not, or the cluster is not as the jobs need it; or a query failed inside the block,
            with what to do.
    """
    topics = settings.topics
    needed = [topics.decisions, topics.dead_letters, topics.quotas, *([topics.requests] if enforcing else [])]
    topic_ids = prepare_topics(settings, needed)
    with working_session(settings, name, log) as spark:
        with failing_as(name):
            _claim(Files(spark, settings), settings, topic_ids, needed, enforcing=enforcing)
        yield spark


def _claim(
    files: Files, settings: Settings, topic_ids: Mapping[str, str], needed: Sequence[str], *, enforcing: bool
) -> None:
    deadline = time.monotonic() + settings.kafka.timeout_seconds
    while True:
        try:
            claim_storage(files, settings, topic_ids, all_there=enforcing)
        except TopicGone:  # a broker that starts again may not know all topics yet
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_SECONDS)
            topic_ids = prepare_topics(settings, needed)
        else:
            break
    if enforcing and settings.topics.by_users and not user_topics(topic_ids, settings):
        _log.warning(
            "no user has a topic of their own yet, or this principal may describe none: "
            "mutation-quota tenants prepare makes them, and says who is to be allowed what"
        )


def start_queries(spark: SparkSession, settings: Settings) -> list[StreamingQuery]:
    """Start enforcing, and auditing beside it if the settings say so."""
    audits = (
        [start_audit(spark, settings)] if settings.enforce.with_audit else []
    )  # first: it has the more to object to
    return [start_enforce(spark, settings), *audits]


def looking_after(spark: SparkSession, settings: Settings, queries: Sequence[StreamingQuery]) -> Callable[[], None]:
    """What is to be called now and then while these queries run, one of which enforces."""
    files = Files(spark, settings)
    (enforcing,) = [query for query in queries if query.name == NAME]
    batch, topics = FirstBatch(files, enforcing, STATE_VERSION), UserTopicsWatch(files, settings)

    def look() -> None:
        batch.look()
        topics.look()

    return look


def _tell_callback(settings: Settings) -> None:
    """Say who judges, where it is not the eight levels; the quota log goes before the settings."""
    log = read_log(settings)
    found = log.quotas.callback(log.now)
    if not found.is_default:
        by = "settings" if found == settings.quota.callbacks.setting else "quota log, which goes before the settings"
        _log.info("callback: %s, by the %s", found.class_name, by)


def _run(stop: threading.Event, *queries: StreamingQuery, look: Callable[[], None] = lambda: None) -> None:
    _log.info("running: %s", ", ".join(query.name for query in queries))
    run_until(stop, queries, look)
