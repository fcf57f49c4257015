"""Spark's properties, from measured defaults, the settings, and the options of spark-submit."""

import logging
import os
import re
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

from jobs.installation import conf_file, spark_jars
from jobs.log_lines import SERVICE_VARIABLE
from jobs.spark.worker import MEMORY_VARIABLE
from quota.errors import BadInput
from quota.settings import Settings
from quota.settings.connection import ALLOWED_URLS
from quota.settings.secrets import SECRET_NAME
from quota.settings.types import in_bytes

_log = logging.getLogger(__name__)

PARTITIONS = "spark.sql.shuffle.partitions"
_REDACTED = "spark.redaction.regex"

_FILES = "spark.hadoop.fs.file.impl"

# Hive's ProxyLocalFileSystem, Spark's default, does not replace an existing file, and Spark then reports success.
_LOCAL_FILES = "org.apache.hadoop.fs.LocalFileSystem"

# Hadoop's LocalFileSystem starts a process for each change of permissions, thirty per batch; this one uses Java.
_FAST_FILES = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
_FAST_FILES_JAR = "hadoop-bare-naked-local-fs-*.jar"
_S3_JAR = "hadoop-aws-*.jar"
_DEPLOY_MODE = "spark.submit.deployMode"
_CLASS_PATH = "spark.driver.extraClassPath"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_EXECUTORS_JAVA_OPTIONS = "spark.executor.extraJavaOptions"

# On a local disk this is as safe as the default, and ten times faster.
LOCAL_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

# S3 has no renames: a file is written under its final name, and an incomplete upload is aborted.
_S3_CHECKPOINTS = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"

_S3_ATTEMPTS = {
    "spark.hadoop.fs.s3a.attempts.maximum": "3",
    "spark.hadoop.fs.s3a.retry.limit": "5",
}
"""The number of Hadoop's attempts if a store does not respond; by default it may retry for many minutes."""

_S3_SNAPSHOTS = {"spark.sql.streaming.stateStore.minDeltasForSnapshot": "10"}
"""A start reads the changes of each batch since the last snapshot, with three requests to the store for each."""


def spark_defaults() -> dict[str, str]:
    """Return the properties of `conf/spark-defaults.conf`, chosen by measurement."""
    lines = conf_file("spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#"))
    return {name: value.strip() for name, value in pairs}


def spark_properties(settings: Settings, *, java_options: str = "", service: str = "") -> dict[str, str]:
    """Return all properties of a Spark that the jobs start themselves; the JVM's options are added to the settings'."""
    spark = settings.spark
    started = {
        "spark.master": spark.master,
        "spark.driver.memory": spark.driver_memory,
    }
    jars = spark_jars(spark.jars, s3=settings.storage.is_s3)
    if settings.storage.is_s3 and not any(fnmatch(jar.name, _S3_JAR) for jar in jars):
        raise BadInput(f"{settings.storage.root}: there is no {_S3_JAR} in {spark.jars}, which spark.jars names")
    overriding = _overriding(settings, spark.conf)
    if spark.master.startswith("local"):
        started |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        if any(fnmatch(jar.name, _FAST_FILES_JAR) for jar in jars):
            started[_FILES] = _FAST_FILES
        # Not as spark.jars: Spark uses the file system before it loads them, and a class archive does not include them.
        overriding[_CLASS_PATH] = os.pathsep.join([*map(str, jars), *filter(None, [spark.conf.get(_CLASS_PATH)])])
    else:
        started["spark.jars"] = ",".join(map(str, jars))
    log = f"-Dlog4j2.configurationFile={conf_file('log4j2.properties').as_uri()}"
    if settings.logging.format == "json":
        log += f" -Dmutation-quota.log=json -Dmutation-quota.service={service}"
    # Java uses the last one of two options, so an operator's own come after those for the log.
    overriding[_JAVA_OPTIONS] = " ".join(filter(None, [log, spark.conf.get(_JAVA_OPTIONS), java_options]))
    return spark_defaults() | _derived(settings, service) | started | spark.conf | overriding


def submitted_properties(settings: Settings, given: Mapping[str, str], *, service: str = "") -> dict[str, str]:
    """Return the properties to set on a Spark that spark-submit has started with the properties `given`.

    Those override `[spark]` and `[spark.conf]`, but not properties from other sections.
    """
    root = settings.storage.root
    is_default = "root" not in settings.storage.model_fields_set
    if given.get(_DEPLOY_MODE) == "cluster" and "://" not in root and (is_default or not Path(root).is_absolute()):
        raise BadInput(
            f"storage.root={root} is on the machine of the driver, and a cluster may choose another one; set a URL or "
            "an absolute path that the driver and all executors share"
        )
    defaults = spark_defaults()
    # spark-submit may use our own defaults file, which the settings override.
    submitted = {name: value for name, value in given.items() if defaults.get(name) != value}
    derived = _derived(settings, service)
    if _FILES in derived:
        derived[f"{_FILES}.disable.cache"] = "true"  # Hadoop has cached Hive's, which spark-submit used for its jars
    ours = defaults | derived | settings.spark.conf
    unset = {name: value for name, value in ours.items() if name not in submitted}
    return unset | _overriding(settings, settings.spark.conf | submitted)


def _derived(settings: Settings, service: str) -> dict[str, str]:
    """Return the properties derived from the settings, for any way to start Spark; others override them."""
    properties = {
        "spark.scheduler.allocation.file": conf_file("fair-scheduler.xml").as_uri(),
        "spark.sql.warehouse.dir": settings.storage.local_folder("warehouse").absolute().as_uri(),
        f"spark.executorEnv.{MEMORY_VARIABLE}": str(in_bytes(settings.spark.worker_memory)),
    }
    if settings.logging.format == "json":
        properties[f"spark.executorEnv.{SERVICE_VARIABLE}"] = service
    if "://" not in settings.storage.root:
        properties |= {CHECKPOINT_FILES: LOCAL_CHECKPOINTS, _FILES: _LOCAL_FILES}
    if settings.storage.is_s3:
        properties |= _S3_ATTEMPTS | _S3_SNAPSHOTS | {CHECKPOINT_FILES: _S3_CHECKPOINTS}
    return properties


def _overriding(settings: Settings, others: Mapping[str, str]) -> dict[str, str]:
    """Return the properties from sections other than `[spark]`, which override all others."""
    hadoop = settings.storage.hadoop()
    partitions = str(settings.enforce.state_partitions)
    if others.get(PARTITIONS, partitions) != partitions:
        _log.warning(
            "%s=%s is ignored; enforce.state_partitions=%s applies", PARTITIONS, others[PARTITIONS], partitions
        )
    # Spark shows properties and options in its log, its event log and its web pages.
    kafka = [f"^(kafka[.])?{re.escape(name)}$" for name in settings.kafka.java]
    hidden = [SECRET_NAME, *kafka, *map(re.escape, hadoop), *([others[_REDACTED]] if _REDACTED in others else [])]
    overriding = {PARTITIONS: partitions, _REDACTED: "|".join(hidden), **hadoop}
    if url := settings.kafka.sasl_oauthbearer_token_endpoint_url:
        given = others.get(_EXECUTORS_JAVA_OPTIONS, "")
        overriding[_EXECUTORS_JAVA_OPTIONS] = f"-D{ALLOWED_URLS}={url} {given}".rstrip()
    return overriding
