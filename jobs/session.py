"""The Spark session of the jobs: what was measured to pay is the default."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from jobs.checkout import conf_file, jars_folder
from jobs.storage import hadoop_properties, local_folder
from jobs.worker import MEMORY_VARIABLE
from quota.errors import BadInput
from quota.secrets import SECRET_NAME, is_secret
from quota.settings import Settings, in_bytes

_DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    # State of the buckets: RocksDB, of which each batch writes only what changed.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Without it an idle query keeps making batches, and `--once` never ends.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Over TCP each Python stage stalls for about 40 ms.
    "spark.python.unix.domain.socket.enabled": "true",
    # Records may be large, and the stateful stage bounds what a worker holds at once by rows alone:
    # 1,000 instead of 10,000 costs a tenth of the throughput, 256 would halve it.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 * 1024 * 1024),
    # Parquet looks at the size of a page after a hundred rows; a hundred dead letters may fill the heap.
    "spark.hadoop.parquet.page.size.row.check.min": "5",
    # Java's serializer holds what it reads until it is told not to, by default after a hundred pieces of a cached
    # batch, of 4 MB or one large record each.
    "spark.serializer.objectStreamReset": "1",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Fifty tasks a commit are too many for small tables.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Enforcing and auditing in one process take turns instead of queueing.
    "spark.scheduler.mode": "FAIR",
    "spark.scheduler.allocation.file": conf_file("fair-scheduler.xml").as_uri(),
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={conf_file('log4j2.properties').as_uri()}",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

_END_SECONDS = 30.0

# On a local disk as safe as the default, and ten times faster.
_LOCAL_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def spark_session(settings: Settings, name: str, log: Path | None = None) -> SparkSession:
    """Start the session of this process.

    Args:
        settings: the settings.
        name: what the application is called in Spark's lists.
        log: a file for what the JVM and the workers write, in place of standard error.

    Raises:
        BadInput: there is no JVM, or no jars.
    """
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise BadInput("no java found; install a JDK 17 or newer")
    properties = spark_properties(settings)
    conf = SparkConf(loadDefaults=False).setAll(list(properties.items())).setAppName(name)
    # What a JVM is started with stands on its command line, for all users of the machine.
    hidden = hadoop_properties(settings).keys() | {key for key in properties if is_secret(key)}
    seen = SparkConf(loadDefaults=False).setAll([each for each in conf.getAll() if each[0] not in hidden])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if settings.spark.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # A process group of its own keeps Ctrl-C from the JVM and its workers: we end the queries first, then them.
    popen: dict[str, Any] = {"start_new_session": True}
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        popen["stdout"] = popen["stderr"] = log.open("ab")
    on_interrupt = signal.getsignal(signal.SIGINT)
    context = SparkContext(conf=conf, gateway=launch_gateway(seen, popen))  # type: ignore[no-untyped-call]
    signal.signal(signal.SIGINT, on_interrupt)  # SparkContext puts a handler of its own there, which kills batches
    return SparkSession(context)


def end_session(spark: SparkSession) -> None:
    """Stop a session and its JVM, so that nothing of it outlives the program.

    PySpark alone leaves the JVM to notice that this process has gone, some time after it has.
    """
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 PySpark has no other way to the process it started
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # what its JVM waits for
    try:
        gateway.proc.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
    # Another session of this process starts a JVM of its own.
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001


def spark_properties(settings: Settings) -> dict[str, str]:
    """All Spark properties that the settings come to."""
    spark = settings.spark
    properties = {
        **_DEFAULTS,
        "spark.master": spark.master,
        "spark.sql.warehouse.dir": local_folder(settings, "warehouse").absolute().as_uri(),
        "spark.driver.memory": spark.driver_memory,
        # Arrow's own allocator reserves a gigabyte of address space before it holds anything.
        "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
        f"spark.executorEnv.{MEMORY_VARIABLE}": str(in_bytes(spark.worker_memory)),
        "spark.jars": ",".join(str(jar) for jar in sorted(jars_folder(spark.jars).glob("*.jar"))),
        "spark.sql.shuffle.partitions": str(settings.enforce.state_partitions),
    }
    hadoop = hadoop_properties(settings)
    # What Spark shows of properties and options: in its log, its event log and its pages.
    properties["spark.redaction.regex"] = "|".join([SECRET_NAME, *map(re.escape, hadoop)])
    if spark.master.startswith("local"):
        properties |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if "://" not in settings.storage.root:
        properties["spark.sql.streaming.checkpointFileManagerClass"] = _LOCAL_CHECKPOINTS
    return properties | hadoop | spark.conf
