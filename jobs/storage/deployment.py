"""The topics that a storage root belongs to. A recreated topic must not be read with checkpoints of the old topic."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Self

from jobs.storage.stored_files import Files, ReadableFiles, numbered
from quota.admission.identity import request_topic, user_of
from quota.errors import MutationQuotaError
from quota.settings import Settings

_VERSIONS = "deployment"
"""The folder of the versions of the file, of which the newest counts."""


class TopicGone(MutationQuotaError):
    """A topic was deleted, or the broker that responded does not know it yet."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """The topics and checkpoints of a storage root.

    Several programs change them. Each change is another file, `deployment/<number>`: the second of two programs that
    create the same file is rejected, and makes its change again.
    """

    topics: dict[str, str] = field(default_factory=dict)
    """The topics that the root belongs to: name to the id that the cluster assigned."""
    retired: list[str] = field(default_factory=list)
    """Topics among them that were deleted permanently; no topic may be created under these names again."""
    checkpoints: dict[str, int] = field(default_factory=dict)
    """Queries that have finished a batch: name to the version of the checkpoint used last."""

    @classmethod
    def read(cls, files: ReadableFiles) -> Self:
        """Read the newest version; return an empty deployment if there is none."""
        return cls.read_version(files)[1]

    @classmethod
    def read_version(cls, files: ReadableFiles) -> tuple[list[int], Self]:
        """Read the newest version, and return it with the numbers of all versions; none if there is none."""
        while numbers := numbered(files, _VERSIONS):
            number = numbers[-1]
            if (text := files.read(f"{_VERSIONS}/{number}")) is not None:  # otherwise it was replaced meanwhile
                break
        else:
            return [], cls()
        try:
            fields = json.loads(text)
            known = cls(dict(fields["topics"]), list(fields.get("retired", [])), dict(fields.get("checkpoints", {})))
        except (ValueError, KeyError, TypeError):
            raise MutationQuotaError(
                f"{files.root}/{_VERSIONS}/{number} is damaged; restore it, or remove it if topics and checkpoints of "
                "this root are unchanged: the job then creates it again"
            ) from None
        return numbers, known

    def with_topics(self, found: Mapping[str, str], settings: Settings) -> Self:
        """Return the deployment with more topics."""
        root = settings.storage.root
        for name, topic_id in found.items():
            if self.topics.get(name, topic_id) != topic_id:
                raise MutationQuotaError(
                    f"topic {name} is not the topic that {root} belongs to (its id was {self.topics[name]}, now it is "
                    f"{topic_id}); set another storage.root, or move its checkpoints and tables away"
                )
        by_topic = settings.topics.user_topic_prefix is not None
        if (settings.topics.requests in self.topics) if by_topic else self._user_topics(settings):
            raise MutationQuotaError(f"{root} belongs to a different topics.identity; set a different storage.root")
        return replace(self, topics={**self.topics, **found})

    def with_all_topics(self, found: Mapping[str, str], settings: Settings) -> Self:
        """Return the deployment with more topics, which include all existing topics of users.

        A missing one is an error (`TopicGone`), unless its user is one of `topics.retired_users`: then it is retired.
        """
        topics = settings.topics
        to_retire = {request_topic(user, topics) for user in topics.retired_users if topics.user_topic_prefix}
        retired = {*self.retired, *(to_retire & self.topics.keys() - found.keys())}
        known = replace(self.with_topics(found, settings), retired=sorted(retired))
        for name in sorted(self._user_topics(settings) - found.keys() - retired):
            raise TopicGone(
                f"topic {name} was deleted, and may have had unread requests; if this is intended, start once with "
                "its user in topics.retired_users"
            )
        return known

    def _user_topics(self, settings: Settings) -> set[str]:
        topics = settings.topics
        return {name for name in self.topics if user_of(name, topics.requests)} - set(topics.names)


def claim_storage(files: Files, settings: Settings, topic_ids: Mapping[str, str]) -> Deployment:
    """Record which topics the storage root belongs to, or check that they are still the same; return what is recorded.

    With the offsets of a deleted topic of the same name, requests would be skipped and decisions mistaken for copies.
    The ids are those of all topics: if a user's topic is missing, it no longer exists, which is an error (`TopicGone`).
    """
    return _change(files, lambda known: known.with_all_topics(topic_ids, settings))


def claim_topics(files: Files, settings: Settings, topic_ids: Mapping[str, str]) -> Deployment:
    """Do as `claim_storage`, for some of the topics: others may exist, too."""
    return _change(files, lambda known: known.with_topics(topic_ids, settings))


def record_checkpoint(files: Files, query: str, version: int) -> None:
    """Record that a query has finished a batch with a checkpoint of this version."""
    _change(files, lambda known: replace(known, checkpoints=known.checkpoints | {query: version}))


def forget_checkpoint(files: Files, query: str) -> None:
    """Undo `record_checkpoint`: the query starts from scratch next time."""

    def forget(known: Deployment) -> Deployment:
        others = {name: version for name, version in known.checkpoints.items() if name != query}
        return replace(known, checkpoints=others)

    _change(files, forget)


def _change(files: Files, change: Callable[[Deployment], Deployment]) -> Deployment:
    """Change what other programs may change at the same time; return what is recorded then."""
    while True:
        numbers, known = Deployment.read_version(files)
        if (changed := change(known)) == known:
            break
        # The next round finds out whether it counts.
        files.create(f"{_VERSIONS}/{max(numbers, default=0) + 1}", json.dumps(asdict(changed)))
    for old in numbers[:-1]:
        files.remove(f"{_VERSIONS}/{old}")
    return known
