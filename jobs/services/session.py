"""A Spark session on topics and a storage root that belong together, and queries run in it."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs.spark.queries import query_errors, run_until
from jobs.spark.session import working_session
from jobs.storage.deployment import TopicGone, claim_storage
from jobs.storage.files import Files
from quota.kafka.topics.specs import prepare_topics, user_topics
from quota.settings.model import Settings

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.2


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
        with query_errors(name):
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


def run_queries(stop: threading.Event, *queries: StreamingQuery, look: Callable[[], None] = lambda: None) -> None:
    """Run queries until they end or `stop` is set (`jobs.spark.queries.run_until`)."""
    _log.info("running: %s", ", ".join(query.name for query in queries))
    run_until(stop, queries, look)
