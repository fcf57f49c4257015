"""Whose checkpoints and tables a storage root holds: a log that was begun anew must not go on with them."""

import json
from typing import Any

from pyspark.sql import SparkSession

from jobs.storage import storage_root
from quota.errors import MutationQuotaError
from quota.settings import Settings


def claim_storage(spark: SparkSession, settings: Settings, topic_ids: dict[str, str]) -> None:
    """Note which topics the storage root belongs to, or check that they still are the same.

    Offsets of another topic of the same name would have requests passed over, and decisions taken for doubles.

    Raises:
        MutationQuotaError: a topic is not the one that this root was begun with.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 the file may be on any file system that Hadoop knows
    path = jvm.org.apache.hadoop.fs.Path(storage_root(settings), "deployment.json")
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
    known: dict[str, str] = {}
    if files.exists(path):
        stream = files.open(path)
        known = json.loads(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))["topics"]
        stream.close()
    for name, topic_id in topic_ids.items():
        if known.get(name, topic_id) != topic_id:
            raise MutationQuotaError(
                f"topic {name} is not the one that {settings.storage.root} was begun with (its id was {known[name]}, "
                f"now it is {topic_id}); set another storage.root, or move this one's checkpoints and tables away"
            )
    if known.keys() < (known | topic_ids).keys():
        stream = files.create(path, True)
        stream.write(json.dumps({"topics": known | topic_ids}).encode())
        stream.close()
