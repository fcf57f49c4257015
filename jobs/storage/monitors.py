"""Monitors of a deployment, polled while its queries run."""

import logging

from pyspark.sql.streaming.query import StreamingQuery

from jobs.spark.failures import query_errors
from jobs.storage.deployment import claim_storage, record_checkpoint
from jobs.storage.files import Files
from quota.errors import ClusterError
from quota.kafka.timing import Every
from quota.kafka.topics.user_topics import UserTopics
from quota.settings import Settings

_log = logging.getLogger(__name__)

_USER_TOPICS_SECONDS = 5.0


class CheckpointMonitor:
    """Records, after the first finished batch of a query, that it has a checkpoint, so that a later loss is noticed."""

    def __init__(self, files: Files, query: StreamingQuery, version: int) -> None:
        """Prepare the monitor; poll it once more after the query has ended."""
        self._files = files
        self._query = query
        self._version = version
        self._is_recorded = False

    def poll(self) -> None:
        """Check whether the query has finished a batch."""
        progress = None if self._is_recorded else self._query.lastProgress
        if progress and (progress["batchId"] or progress["numInputRows"]):
            with query_errors(self._query.name):
                record_checkpoint(self._files, self._query.name, self._version)
            self._is_recorded = True


class UserTopicsMonitor:
    """Claims new topics of users every 5 s; does nothing if users have no topics of their own."""

    def __init__(self, files: Files, settings: Settings) -> None:
        """Prepare the monitor; the first poll connects."""
        self._files = files
        self._settings = settings
        self._topics = None if settings.topics.by_users is None else UserTopics(settings)
        self._poll = Every(_USER_TOPICS_SECONDS)

    def poll(self) -> None:
        """Check the topics if a check is due.

        Raises:
            MutationQuotaError: a topic was deleted and created again.
        """
        if self._topics is None or not self._poll.is_due():
            return
        try:
            ids = self._topics.check()
        except ClusterError as error:
            _log.debug("cannot look for new topics: %s", error)
        else:
            # The broker may not know all topics yet. If one is deleted, the query that reads it fails.
            claim_storage(self._files, self._settings, ids, all_there=False)
