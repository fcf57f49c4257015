"""Monitors of a deployment, which are polled while its queries run."""

import logging
from collections.abc import Callable

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from jobs.metrics.queries import QueryObserver
from jobs.spark.failures import reason_in
from jobs.storage.deployment import Deployment, claim_topics, record_checkpoint
from jobs.storage.stored_files import Files
from quota.errors import ClusterError, StoreError
from quota.kafka.timing import Every
from quota.kafka.topics.preparation import UserTopics
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.settings import Settings

_log = logging.getLogger(__name__)

_USER_TOPICS_SECONDS = 5.0


class _Writing:
    """Writes to the storage root that the next poll retries; if the root stays unreachable, the lease ends the job."""

    def __init__(self, purpose: str) -> None:
        self._purpose = purpose
        self._logged = ""

    def attempt(self, write: Callable[[], object]) -> bool:
        """Return whether a write succeeded; the same error is logged only once."""
        try:
            write()
        except ConnectionError:  # the JVM has exited
            raise
        except (Py4JJavaError, OSError, StoreError) as error:
            reason = reason_in(str(error) or type(error).__name__)
            if reason != self._logged:
                _log.warning("cannot %s: %s: retrying", self._purpose, reason)
            self._logged = reason
            return False
        self._logged = ""
        return True


class CheckpointMonitor:
    """Records that a query has a checkpoint after its first finished batch, so that a later loss is noticed."""

    def __init__(self, files: Files, observer: QueryObserver, query: str, version: int, known: Deployment) -> None:
        """Create the monitor of an observed query; poll it once more after the query has ended.

        Nothing is read or written if the deployment, as of the start of the query, has the checkpoint.
        """
        self._files = files
        self._observer = observer
        self._query = query
        self._version = version
        self._is_recorded = known.checkpoints.get(query) == version
        self._writing = _Writing(f"record the checkpoint of {query}")

    def poll(self) -> None:
        """Check whether the query has finished a batch."""
        if not self._is_recorded and self._observer.observations[self._query].has_checkpoint:
            self._is_recorded = self._writing.attempt(
                lambda: record_checkpoint(self._files, self._query, self._version)
            )


class UserTopicsMonitor:
    """Claims new topics of users every 5 s; does nothing if users do not have their own topics."""

    def __init__(self, files: Files, settings: Settings, topics: TopicAdmin) -> None:
        """Create the monitor of a cluster's topics."""
        self._files = files
        self._settings = settings
        self._topics = None if settings.topics.user_topic_prefix is None else UserTopics(settings, topics)
        self._poll = Every(_USER_TOPICS_SECONDS)
        self._writing = _Writing("claim the topics of users")

    def poll(self) -> None:
        """Check the topics if a check is due."""
        if self._topics is None or not self._poll.is_due():
            return
        try:
            ids = self._topics.check()
        except ClusterError as error:
            _log.debug("cannot check for new topics: %s", error)
        else:
            # The broker may not know all topics yet. If one is deleted, the query that reads it fails.
            self._writing.attempt(lambda: claim_topics(self._files, self._settings, ids))
