"""A search for secrets in files, in talkative logs and in the command lines of all processes."""

import threading
from pathlib import Path

_LOG4J = """\
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.target=SYSTEM_ERR
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%p %c %m%n%ex
logger.spark.name=org.apache.spark
logger.spark.level=info
logger.source.name=org.apache.spark.sql.kafka010
logger.source.level=debug
logger.own.name=org.apache.spark.kafka010
logger.own.level=debug
logger.kafka.name=org.apache.kafka
logger.kafka.level=info
"""


def talkative_log(folder):
    """Return the Java option by which Spark and its Kafka clients log as much as operators ever let them."""
    file = folder / "log4j2.properties"
    file.write_text(_LOG4J)
    return f"-Dlog4j2.configurationFile={file.as_uri()}"


def files_with(secrets, *folders):
    """Return the files below some folders that contain one of the secrets."""
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    assert files
    return [file for file in files if any(secret in file.read_bytes() for secret in secrets)]


class CommandLines:
    """A watch on the command lines of all processes, polled inside the block."""

    def __init__(self, *secrets):
        self._secrets = secrets
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self.jvms = set()
        self.leaks = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()

    def _poll(self):
        while not self._end.wait(0.5):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    line = file.read_bytes()
                except OSError:  # the process has ended
                    continue
                if b"SparkSubmit" in line:
                    self.jvms.add(file.parent.name)
                if any(secret in line for secret in self._secrets):
                    self.leaks.append(line)
