"""Looking after the topics of users while the jobs run: new ones are noted, and one that was made anew is noticed."""

import logging
import time

from jobs.storage.deployment import claim_storage
from jobs.storage.files import Files
from quota.errors import ClusterError
from quota.kafka.topics.user_topics import UserTopics
from quota.settings.model import Settings

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 5.0


class UserTopicsMonitor:
    """Looks now and then; does nothing where users have no topics of their own."""

    def __init__(self, files: Files, settings: Settings) -> None:
        self._files = files
        self._settings = settings
        self._topics = None if settings.topics.by_users is None else UserTopics(settings)
        self._looked = float("-inf")

    def look(self) -> None:
        """Look, if it is time.

        Raises:
            MutationQuotaError: a topic was made anew.
        """
        if self._topics is None or time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        try:
            ids = self._topics.look()
        except ClusterError as error:
            _log.debug("cannot look for new topics now: %s", error)
        else:
            # One that is not there may be unknown to the broker that was asked; where it is gone, the query ends.
            claim_storage(self._files, self._settings, ids, all_there=False)
        self._looked = time.monotonic()
