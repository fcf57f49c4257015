"""The Spark session of a service."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from jobs.spark.failures import query_errors
from jobs.spark.session import session
from jobs.storage.deployment import TopicGone, claim_storage
from jobs.storage.files import Files
from quota.kafka.timing import Deadline
from quota.kafka.topics.preparation import prepare_topics
from quota.kafka.topics.specs import user_topic_names
from quota.settings import Settings

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.2


@contextmanager
def deployment_session(
    settings: Settings, name: str, log: Path | None = None, *, enforcing: bool = True
) -> Iterator[SparkSession]:
    """A `session` for a deployment, whose topics are prepared and whose storage root belongs to these topics.

    Args:
        settings: the settings.
        name: the program's name.
        log: the file for the output of the JVM and the workers, standard error by default.
        enforcing: whether the program reads requests; if not, it needs no permission to describe their topics.

    Raises:
        ClusterError: the cluster does not answer, or its topics are not as the jobs need them.
        MutationQuotaError: the storage root belongs to other topics; or a query failed inside the block: what to do.
    """
    topics = settings.topics
    needed = [topics.decisions, topics.dead_letters, topics.quotas, *([topics.requests] if enforcing else [])]
    topic_ids = prepare_topics(settings, needed)
    with session(settings, name, log) as spark:
        with query_errors(name):
            _claim(Files(spark, settings), settings, topic_ids, needed, enforcing=enforcing)
        yield spark


def _claim(
    files: Files, settings: Settings, topic_ids: Mapping[str, str], needed: Sequence[str], *, enforcing: bool
) -> None:
    """Claim the storage root; retry while a topic is gone: a broker that has just started may not know all topics."""
    deadline = Deadline(settings.kafka.timeout_seconds)
    while True:
        try:
            claim_storage(files, settings, topic_ids, all_there=enforcing)
        except TopicGone:
            if deadline.has_passed:
                raise
            time.sleep(_RETRY_SECONDS)
            topic_ids = prepare_topics(settings, needed)
        else:
            break
    if enforcing and settings.topics.by_users and not user_topic_names(topic_ids, settings):
        _log.warning(
            "no user has a topic of their own yet, or this principal may describe none: "
            "mutation-quota tenants prepare makes them, and says who is to be allowed what"
        )
