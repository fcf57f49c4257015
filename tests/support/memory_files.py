"""A storage root without a file system."""

import threading

from py4j.protocol import Py4JJavaError


class StoreError(Py4JJavaError):
    """An error of Hadoop as HadoopFiles raises it, created without a JVM."""

    def __init__(self, text="java.net.ConnectException: open on s3a://bucket/root: Connection refused"):
        """Take the first lines of the error."""
        self._text = text

    def __str__(self):
        return (
            f"An error occurred while calling o1.open.\n: {self._text}\n"
            "\tat org.apache.hadoop.fs.s3a.S3AUtils.translateException(S3AUtils.java:265)\n"
        )


def reject(*_):
    """Replace open_files, or one of its calls, while the store does not respond."""
    raise StoreError


class MemoryFiles:
    """A storage root in memory that can be made unreachable."""

    root = "s3a://bucket/root"

    def __init__(self, *, conditional=True):
        self.texts = {}
        self.reachable = threading.Event()
        self.reachable.set()
        self._conditional = conditional

    def _check(self):
        if not self.reachable.is_set():
            raise OSError("connection refused")

    def read(self, path):
        self._check()
        return self.texts.get(path)

    def write(self, path, text):
        self._check()
        self.texts[path] = text

    def create(self, path, text):
        self._check()
        return self.texts.setdefault(path, text) is text or not self._conditional

    def names(self, folder):
        self._check()
        inside = (path.removeprefix(f"{folder.rstrip('/')}/") for path in self.texts)
        return sorted({path.split("/")[0] for path in inside if path not in self.texts})

    def close(self):
        pass

    def remove(self, path):
        self._check()
        self.texts = {file: text for file, text in self.texts.items() if not f"{file}/".startswith(f"{path}/")}
