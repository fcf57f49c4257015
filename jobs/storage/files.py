"""Files in a storage root, on any file system that Hadoop supports."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from jobs.storage.whole_file import write_whole
from quota.errors import MutationQuotaError
from quota.settings import Settings

_CONDITIONAL = "fs.option.create.conditional.overwrite"
"""The option for a conditional write, so that S3 rejects overwriting; `overwrite=false` only checks before writing."""
_NO_EXISTENCE_CHECK = "fs.s3a.create.performance"
_EXISTS = (".FileAlreadyExistsException", ".RemoteFileChangedException")
_MISSING = ".FileNotFoundException"


class Files:
    """The files of a deployment; paths are relative to its storage root."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        """Connect to the file system of the root; nothing is read yet."""
        self.root = settings.storage.url
        self._is_s3 = settings.storage.is_s3
        jvm: Any = spark._jvm  # noqa: SLF001 PySpark has no other way to Hadoop
        self._jvm = jvm
        # With the properties of Spark, one of which determines how checkpoints are written.
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        if "://" not in self.root:
            _check_local(self.root, jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(self._conf).toString())
        self._files = jvm.org.apache.hadoop.fs.FileSystem.newInstance(
            self._path("").toUri(), self._conf
        )  # not the instance that Spark shares
        self._files.setVerifyChecksum(False)  # an operator may have corrected a file by hand

    def read(self, path: str) -> str | None:
        """Return the text of a file; None if it does not exist."""
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

    def write(self, path: str, text: str) -> None:
        """Write or replace a file atomically."""
        if self._is_s3:
            _write(self._s3_file(path).build(), text)
            return
        if "://" not in self.root:  # on a cluster, Hive's local file system silently does not replace files
            _write_local(Path(self.root, path), text)
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
        """Create a file; of several concurrent attempts one succeeds.

        Returns:
            Whether it was created; false if it exists.
        """
        if "://" not in self.root:  # Hadoop's local file system checks first, and then writes
            return _create_local(Path(self.root, path), text)
        try:
            if self._is_s3:
                _write(self._s3_file(path).must(_CONDITIONAL, True).build(), text)
            else:
                _write(self._files.create(self._path(path), False), text)
        except Py4JJavaError as error:
            if _class_of(error).endswith(_EXISTS):
                return False
            raise
        return True

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; empty if it does not exist."""
        try:
            found = self._files.listStatus(self._path(folder))
        except Py4JJavaError as error:
            if _class_of(error).endswith(_MISSING):
                return []
            raise
        return sorted(status.getPath().getName() for status in found)

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


def _check_local(folder: str, default: str) -> None:
    """Check that Hadoop uses a folder of this machine, because leases and tables are written without Hadoop."""
    if not default.startswith("file:"):
        raise MutationQuotaError(
            f"storage.root={folder} is a folder, but Hadoop's default file system here is {default}; set "
            '"fs.defaultFS" = "file:///" in storage.options if the driver and all executors share this folder, or '
            "set storage.root to a URL"
        )


def _write(stream: Any, text: str) -> None:  # noqa: ANN401 a Java object
    stream.write(text.encode())
    stream.close()


def _write_local(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum of the previous text
    write_whole(file, text)


def _create_local(file: Path, text: str) -> bool:
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        return False
    except OSError:  # a full disk: the holder of an empty lease file would be unknown
        file.unlink(missing_ok=True)
        raise
    return True


def _class_of(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getName())
