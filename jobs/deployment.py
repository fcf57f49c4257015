"""Whose checkpoints and tables a storage root holds: a log that was begun anew must not go on with them."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from jobs.storage import storage_root
from quota.errors import MutationQuotaError
from quota.identity import user_of
from quota.settings import Settings


@dataclass(frozen=True, slots=True)
class Claim:
    """What stands in `<root>/deployment.json`."""

    topics: dict[str, str] = field(default_factory=dict)
    """The id of each topic that the storage root belongs to."""
    retired: list[str] = field(default_factory=list)
    """Those of them that were deleted for good; none of the same name may come after them."""

    def with_topics(self, found: Mapping[str, str], settings: Settings) -> "Claim":
        """The claim on these topics too.

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

    def with_all_topics(self, found: Mapping[str, str], settings: Settings) -> "Claim":
        """The claim on these topics too, where they are all that there are of users.

        Raises:
            MutationQuotaError: a topic is not the one that this root was begun with, or is gone.
        """
        topics = settings.topics
        retired = {*self.retired, *(topics.requests_of(user) for user in topics.retired_users if topics.by_users)}
        claim = replace(self.with_topics(found, settings), retired=sorted(retired))
        for name in sorted(self._of_users(settings) - found.keys() - retired):
            raise MutationQuotaError(
                f"topic {name} is gone, and with it requests that may not have been read; "
                "if that is for good, start once with its user in topics.retired_users"
            )
        return claim

    def _of_users(self, settings: Settings) -> set[str]:
        topics = settings.topics
        return {name for name in self.topics if user_of(name, topics.requests)} - set(topics.names)


def claim_storage(
    spark: SparkSession, settings: Settings, topic_ids: Mapping[str, str], *, all_there: bool = True
) -> None:
    """Note which topics the storage root belongs to, or check that they still are the same.

    Offsets of another topic of the same name would have requests passed over, and decisions taken for doubles.

    Args:
        spark: the session.
        settings: the settings.
        topic_ids: the id of each topic.
        all_there: whether a user's topic that is not among them is gone.

    Raises:
        MutationQuotaError: a topic is not the one that this root was begun with, or is gone.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 the file may be on any file system that Hadoop knows
    path = jvm.org.apache.hadoop.fs.Path(storage_root(settings), "deployment.json")
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
    known = Claim()
    if files.exists(path):
        stream = files.open(path)
        known = Claim(**json.loads(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")))
        stream.close()
    claim = (known.with_all_topics if all_there else known.with_topics)(topic_ids, settings)
    if claim != known:
        stream = files.create(path, True)
        stream.write(json.dumps(asdict(claim)).encode())
        stream.close()
