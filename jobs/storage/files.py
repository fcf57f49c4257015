"""Files in a storage root, on any file system that Hadoop supports."""

from typing import Any

from pyspark.sql import SparkSession

from quota.errors import MutationQuotaError
from quota.settings import Settings


class Files:
    """The files of a deployment; paths are relative to its storage root."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        """Connect to the file system of the root; nothing is read yet."""
        self.root = settings.storage.url
        jvm: Any = spark._jvm  # noqa: SLF001 PySpark has no other way to Hadoop
        self._jvm = jvm
        # With the properties of Spark, one of which says how checkpoints are written.
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        self._files = jvm.org.apache.hadoop.fs.FileSystem.newInstance(
            self._path("").toUri(), self._conf
        )  # not the instance that Spark shares
        self._files.setVerifyChecksum(False)  # a file that an operator fixed by hand is not damaged

    def read(self, path: str) -> str | None:
        """Return the text of a file; None if there is no such file."""
        file = self._path(path)
        if not self._files.exists(file):
            return None
        stream = self._files.open(file)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Write or replace a file atomically."""
        streaming = self._jvm.org.apache.spark.sql.execution.streaming
        manager = streaming.checkpointing.CheckpointFileManager.create(self._path(""), self._conf)
        manager.mkdirs(self._path(""))
        stream = manager.createAtomic(self._path(path), True)
        try:
            stream.write(text.encode())
            stream.close()
        except BaseException:
            stream.cancel()
            raise

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; none if there is no such folder."""
        path = self._path(folder)
        if not self._files.exists(path):
            return []
        return sorted(status.getPath().getName() for status in self._files.listStatus(path))

    def rename(self, path: str, new: str) -> None:
        """Rename a file or a folder.

        Raises:
            MutationQuotaError: the file system refuses.
        """
        if not self._files.rename(self._path(path), self._path(new)):
            raise MutationQuotaError(f"cannot move {self.root}/{path} to {self.root}/{new}; look who may write there")

    def remove(self, folder: str) -> None:
        """Remove a folder and its content, if it exists."""
        self._files.delete(self._path(folder), True)

    def _path(self, path: str) -> Any:  # noqa: ANN401 a Java object
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{path}" if path else self.root)
