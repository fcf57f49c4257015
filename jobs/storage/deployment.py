"""Whose checkpoints and tables a storage root holds: a log that was begun anew must not go on with them."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Self

from jobs.storage.files import Files
from quota.admission.identity import user_of
from quota.errors import MutationQuotaError
from quota.settings.model import Settings

_FILE = "deployment.json"


class TopicGone(MutationQuotaError):
    """A user's topic is not there any more, or the broker that was asked does not know it yet."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """What a storage root remembers."""

    topics: dict[str, str] = field(default_factory=dict)
    """The topics that it belongs to, with the id that the cluster gave each."""
    retired: list[str] = field(default_factory=list)
    """Those of them that were deleted for good; none of the same name may come after them."""
    checkpoints: dict[str, int] = field(default_factory=dict)
    """The queries that have finished a batch, with the version of the checkpoint that they last went on with."""

    @classmethod
    def read(cls, files: Files) -> Self:
        """What the root remembers; nothing of one that is new.

        Raises:
            MutationQuotaError: the file is damaged.
        """
        text = files.read(_FILE)
        if text is None:
            return cls()
        try:
            found = json.loads(text)
            return cls(dict(found["topics"]), list(found.get("retired", [])), dict(found.get("checkpoints", {})))
        except (ValueError, KeyError, TypeError):
            raise MutationQuotaError(
                f"{files.root}/{_FILE} is damaged; restore it, or remove it if topics and checkpoints of this root "
                "are as the jobs left them: it is written anew"
            ) from None

    def write(self, files: Files) -> None:
        """Have the root remember this."""
        files.write(_FILE, json.dumps(asdict(self)))

    def with_topics(self, found: Mapping[str, str], settings: Settings) -> Self:
        """Belonging to these topics too.

        Raises:
            MutationQuotaError: a topic is not the one that this root was begun with.
        """
        root = settings.storage.root
        for name, topic_id in found.items():
            if self.topics.get(name, topic_id) != topic_id:
                raise MutationQuotaError(
                    f"topic {name} is not the one that {root} was begun with (its id was {self.topics[name]}, "
                    f"now it is {topic_id}); set another storage.root, or move this one's checkpoints and tables away"
                )
        by_topic = settings.topics.by_users is not None
        if (settings.topics.requests in self.topics) if by_topic else self._of_users(settings):
            raise MutationQuotaError(f"{root} was begun with another topics.identity; set another storage.root")
        return replace(self, topics={**self.topics, **found})

    def with_all_topics(self, found: Mapping[str, str], settings: Settings) -> Self:
        """Belonging to these topics too, where they are all that there are of users.

        Raises:
            TopicGone: one is gone.
            MutationQuotaError: a topic is not the one that this root was begun with.
        """
        topics = settings.topics
        asked = {topics.requests_of(user) for user in topics.retired_users if topics.by_users}
        retired = {*self.retired, *(asked & self.topics.keys() - found.keys())}
        known = replace(self.with_topics(found, settings), retired=sorted(retired))
        for name in sorted(self._of_users(settings) - found.keys() - retired):
            raise TopicGone(
                f"topic {name} is gone, and with it requests that may not have been read; "
                "if that is for good, start once with its user in topics.retired_users"
            )
        return known

    def _of_users(self, settings: Settings) -> set[str]:
        topics = settings.topics
        return {name for name in self.topics if user_of(name, topics.requests)} - set(topics.names)


def claim_storage(files: Files, settings: Settings, topic_ids: Mapping[str, str], *, all_there: bool = True) -> None:
    """Note which topics the storage root belongs to, or check that they still are the same.

    Offsets of another topic of the same name would have requests passed over, and decisions taken for doubles.

    Args:
        files: of the storage root.
        settings: the settings.
        topic_ids: the id of each topic.
        all_there: whether a user's topic that is not among them is gone.

    Raises:
        MutationQuotaError: a topic is not the one that this root was begun with, or is gone.
    """
    known = Deployment.read(files)
    claimed = (known.with_all_topics if all_there else known.with_topics)(topic_ids, settings)
    if claimed != known:
        claimed.write(files)


def note_checkpoint(files: Files, query: str, version: int) -> None:
    """Note that a query has finished a batch with a checkpoint of this version."""
    known = Deployment.read(files)
    if known.checkpoints.get(query) != version:
        replace(known, checkpoints=known.checkpoints | {query: version}).write(files)


def forget_checkpoint(files: Files, query: str) -> None:
    """Take that back: what the query does next is a beginning."""
    known = Deployment.read(files)
    if query in known.checkpoints:
        others = {name: version for name, version in known.checkpoints.items() if name != query}
        replace(known, checkpoints=others).write(files)
