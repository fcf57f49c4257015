"""Files of a storage root that queries use: on a disk without Hadoop, and by Hadoop anywhere else."""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from jobs.spark.failures import reason_in
from jobs.storage.deployment import Deployment
from jobs.storage.stored_files import Files, LocalFiles
from quota.errors import MutationQuotaError
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.settings import Settings

_CONDITIONAL = "fs.option.create.conditional.overwrite"
"""The option for a conditional write, so that S3 rejects overwriting; `overwrite=false` only checks before writing."""
_NO_EXISTENCE_CHECK = "fs.s3a.create.performance"
_EXISTS = (".FileAlreadyExistsException", ".RemoteFileChangedException")
_CONFLICT = "Status Code: 409"
"""The answer of S3 to one of two conditional writes at the same time."""
_REFUSED = (".AWSUnsupportedFeatureException", ".AWSBadRequestException")
"""Hadoop's errors for the answers 405, 415 and 501, and for 400: those of stores that do not know a header."""
_MISSING = ".FileNotFoundException"
_REPLACED = "Status Code: 412"
"""The answer of S3 to a read of a file that has been replaced since its size was asked for."""


def open_files(spark: SparkSession, settings: Settings) -> Files:
    """Connect to the file system of a storage root; nothing is read yet.

    A folder is used without Hadoop, whose local file systems check before they write, or do not replace files.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 PySpark has no other way to Hadoop
    # With the properties of Spark, one of which determines how checkpoints are written.
    conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
    url = settings.storage.url
    if "://" in url:
        return HadoopFiles(jvm, conf, url, is_s3=settings.storage.is_s3)
    default = jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(conf).toString()
    if not default.startswith("file:"):
        raise MutationQuotaError(
            f"storage.root={url} is a folder, but Hadoop's default file system here is {default}; set "
            '"fs.defaultFS" = "file:///" in storage.options if the driver and all executors share this folder, or '
            "set storage.root to a URL"
        )
    return LocalFiles(url)


class HadoopFiles:
    """The files of a storage root that is a URL, on any file system that Hadoop supports."""

    def __init__(self, jvm: Any, conf: Any, root: str, *, is_s3: bool) -> None:  # noqa: ANN401 Java objects
        self.root = root
        self._is_s3 = is_s3
        self._jvm = jvm
        self._conf = conf
        # Not the instance that Spark shares, so that it can be closed.
        self._files = jvm.org.apache.hadoop.fs.FileSystem.newInstance(self._path("").toUri(), conf)

    def read(self, path: str) -> str | None:
        """Return the text of a file; None if it does not exist."""
        try:
            return self._text(path)
        except Py4JJavaError as error:
            if not (self._is_s3 and _REPLACED in str(error)):
                raise
        return self._text(path)  # the holder of a lease replaces its file, but not twice within seconds

    def _text(self, path: str) -> str | None:
        try:
            stream = self._files.open(self._path(path))
        except Py4JJavaError as error:
            if _class_of(error).endswith(_MISSING):
                return None
            raise
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; empty if it does not exist."""
        try:
            statuses = self._files.listStatus(self._path(folder))
        except Py4JJavaError as error:
            if _class_of(error).endswith(_MISSING):
                return []
            raise
        return sorted(status.getPath().getName() for status in statuses)

    def write(self, path: str, text: str) -> None:
        """Write or replace a file atomically."""
        if self._is_s3:
            _write(self._s3_file(path).build(), text)
            return
        streaming = self._jvm.org.apache.spark.sql.execution.streaming
        manager = streaming.checkpointing.CheckpointFileManager.create(self._path(""), self._conf)
        manager.mkdirs(self._path(path).getParent())
        stream = manager.createAtomic(self._path(path), True)
        try:
            _write(stream, text)
        except BaseException:
            stream.cancel()
            raise

    def create(self, path: str, text: str) -> bool:
        """Create a file, and return whether it did not exist; of several concurrent attempts one succeeds."""
        try:
            if self._is_s3:
                _write(self._s3_file(path).must(_CONDITIONAL, True).build(), text)
            else:
                _write(self._files.create(self._path(path), False), text)
        except Py4JJavaError as error:
            if _class_of(error).endswith(_EXISTS) or (self._is_s3 and _CONFLICT in str(error)):
                return False
            if self._is_s3 and _class_of(error).endswith(_REFUSED) and self._takes(f"{path}.unconditional"):
                raise MutationQuotaError(
                    f"{self.root}: the store does not support conditional writes (If-None-Match), without which two "
                    f"jobs could overwrite each other's files ({reason_in(str(error))}); use one that does: "
                    "docs/how-to/platforms/s3.md#stores-other-than-amazon-s3"
                ) from None
            raise
        return True

    def _takes(self, path: str) -> bool:
        """Return whether a file can be written without a condition, which then alone was the reason of an error."""
        try:
            self.write(path, "")
            self.remove(path)
        except Py4JJavaError:
            return False
        return True

    def remove(self, path: str) -> None:
        """Remove a file, or a folder and its content, if it exists."""
        self._files.delete(self._path(path), True)

    def close(self) -> None:
        """Close the connection, unless the JVM has exited."""
        with suppress(Py4JError, OSError):
            self._files.close()

    def _s3_file(self, path: str) -> Any:  # noqa: ANN401 a Java object
        """Return the builder of a file that is written atomically, with one request."""
        return self._files.createFile(self._path(path)).overwrite(True).opt(_NO_EXISTENCE_CHECK, True)

    def _path(self, path: str) -> Any:  # noqa: ANN401 a Java object
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{path}" if path else self.root)


def _write(stream: Any, text: str) -> None:  # noqa: ANN401 a Java object
    stream.write(text.encode())
    stream.close()


def _class_of(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getName())


@dataclass(frozen=True, slots=True)
class DeploymentSession:
    """A Spark session on the storage root of a deployment, with which queries are started."""

    spark: SparkSession
    settings: Settings
    files: Files
    """The files of the storage root."""
    topics: TopicAdmin
    deployment: Deployment = field(default_factory=Deployment)
    """The topics and the checkpoints of the root, as of the start of the session."""

    @classmethod
    def on(cls, spark: SparkSession, settings: Settings) -> Self:
        """Return a session that is connected to the storage root until the Spark session ends."""
        files = open_files(spark, settings)
        topics = TopicAdmin(settings.kafka.connection, settings.kafka.timeout_seconds)
        return cls(spark, settings, files, topics, Deployment.read(files))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection to the storage root."""
        self.files.close()
