"""Files of a storage root, on whatever file system Hadoop knows."""

from typing import Any

from pyspark.sql import SparkSession

from quota.errors import MutationQuotaError
from quota.settings.model import Settings
from quota.settings.storage import storage_root


class Files:
    """The files of a deployment; paths are relative to its storage root."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        """Prepare; nothing is read yet."""
        self.root = storage_root(settings)
        jvm: Any = spark._jvm  # noqa: SLF001 PySpark has no other way to Hadoop
        self._jvm = jvm
        self._conf = spark._jsc.hadoopConfiguration()  # noqa: SLF001
        self._files = jvm.org.apache.hadoop.fs.FileSystem.newInstance(
            self._path("").toUri(), self._conf
        )  # one that Spark does not share
        self._files.setVerifyChecksum(False)  # what an operator has mended by hand is no damage

    def read(self, path: str) -> str | None:
        """The text of a file; None where there is none."""
        file = self._path(path)
        if not self._files.exists(file):
            return None
        stream = self._files.open(file)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Put a file in the place of what stands there, as a whole or not at all."""
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
        """What stands in a folder; nothing where there is none."""
        path = self._path(folder)
        if not self._files.exists(path):
            return []
        return sorted(status.getPath().getName() for status in self._files.listStatus(path))

    def rename(self, path: str, new: str) -> None:
        """Move a file or a folder.

        Raises:
            MutationQuotaError: the file system does not let it.
        """
        if not self._files.rename(self._path(path), self._path(new)):
            raise MutationQuotaError(f"cannot move {self.root}/{path} to {self.root}/{new}; look who may write there")

    def remove(self, folder: str) -> None:
        """Remove a folder with all that is in it; nothing where there is none."""
        self._files.delete(self._path(folder), True)

    def remove_empty(self, folder: str) -> None:
        """Remove a folder with nothing in it, if it is there; Hadoop raises where there is something."""
        self._files.delete(self._path(folder), False)

    def _path(self, path: str) -> Any:  # noqa: ANN401 a Java object
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{path}" if path else self.root)
