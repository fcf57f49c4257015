"""The properties of the jobs' Spark: what was measured to pay, what the settings say, what spark-submit was told."""

import logging
import os
import re
from collections.abc import Mapping

from jobs.spark.installation import conf_file, jars_folder
from jobs.spark.worker import MEMORY_VARIABLE
from quota.settings.model import Settings
from quota.settings.secrets import SECRET_NAME
from quota.settings.storage import hadoop_properties, local_folder
from quota.settings.types import in_bytes

_log = logging.getLogger(__name__)

_PARTITIONS = "spark.sql.shuffle.partitions"
_REDACTED = "spark.redaction.regex"

# Hadoop's own starts processes to look after permissions, thirty for each batch; this one asks Java.
_LOCAL_FILES = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
_LOCAL_FILES_JAR = "hadoop-bare-naked-local-fs-*.jar"
_CLASS_PATH = "spark.driver.extraClassPath"

# On a local disk as safe as the default, and ten times faster.
_LOCAL_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def measured() -> dict[str, str]:
    """What was measured to pay: `conf/spark-defaults.conf`."""
    lines = conf_file("spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#"))
    return {name: value.strip() for name, value in pairs}


def spark_properties(settings: Settings) -> dict[str, str]:
    """All properties of a Spark that the jobs start themselves."""
    spark = settings.spark
    started = {
        "spark.master": spark.master,
        "spark.driver.memory": spark.driver_memory,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={conf_file('log4j2.properties').as_uri()}",
        "spark.jars": ",".join(str(jar) for jar in sorted(jars_folder(spark.jars).glob("*.jar"))),
    }
    kept = _kept(settings, spark.conf)
    if spark.master.startswith("local"):
        started |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        jars = [str(jar) for jar in jars_folder(spark.jars).glob(_LOCAL_FILES_JAR)]
        if jars:
            started["spark.hadoop.fs.file.impl"] = _LOCAL_FILES
            # Spark looks at files before it has loaded its jars.
            kept[_CLASS_PATH] = os.pathsep.join([*jars, *filter(None, [spark.conf.get(_CLASS_PATH)])])
    return measured() | started | _everywhere(settings) | spark.conf | kept


def submitted_properties(settings: Settings, given: Mapping[str, str]) -> dict[str, str]:
    """What is left to set where spark-submit has started Spark.

    What it was told goes before `[spark]` and `[spark.conf]`; what other sections come to stays as it is there.

    Args:
        settings: the settings.
        given: by spark-submit, its files and its options.
    """
    of_file = measured()
    # spark-submit may be given our own file, which settings go before.
    told = {name: value for name, value in given.items() if of_file.get(name) != value}
    others = of_file | _everywhere(settings) | settings.spark.conf
    left = {name: value for name, value in others.items() if name not in told}
    return left | _kept(settings, settings.spark.conf | told)


def _everywhere(settings: Settings) -> dict[str, str]:
    """What holds however Spark is started, if nobody says otherwise."""
    properties = {
        "spark.scheduler.allocation.file": conf_file("fair-scheduler.xml").as_uri(),
        "spark.sql.warehouse.dir": local_folder(settings, "warehouse").absolute().as_uri(),
        f"spark.executorEnv.{MEMORY_VARIABLE}": str(in_bytes(settings.spark.worker_memory)),
    }
    if "://" not in settings.storage.root:
        properties["spark.sql.streaming.checkpointFileManagerClass"] = _LOCAL_CHECKPOINTS
    return properties


def _kept(settings: Settings, others: Mapping[str, str]) -> dict[str, str]:
    """What sections other than `[spark]` come to, whatever others say."""
    hadoop = hadoop_properties(settings)
    partitions = str(settings.enforce.state_partitions)
    if others.get(_PARTITIONS, partitions) != partitions:
        _log.warning(
            "%s=%s does not count; enforce.state_partitions=%s does", _PARTITIONS, others[_PARTITIONS], partitions
        )
    # What Spark shows of properties and options: in its log, its event log and its pages.
    hidden = [SECRET_NAME, *map(re.escape, hadoop), *([others[_REDACTED]] if _REDACTED in others else [])]
    return {_PARTITIONS: partitions, _REDACTED: "|".join(hidden), **hadoop}
