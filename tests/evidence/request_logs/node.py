"""One process of a cluster: ZooKeeper, a broker, a controller or both."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from jobs.sandbox.broker import is_listening, stop_process
from jobs.spark.installation import java_program
from quota.errors import ClusterError
from quota.kafka.timing import Deadline

_START_SECONDS = 90.0
_LAST = 2000


@dataclass(slots=True)
class Node:
    """A Java process that listens on a port."""

    name: str
    id: int
    port: int
    folder: Path
    jars: Path
    options: list[str]
    environment: dict[str, str]
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def java(self, main: str, *args: str) -> list[str]:
        """Return the command line that runs a class as the node does."""
        memory = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [str(java_program()), *memory, *self.options, "-cp", f"{self.jars}/*", main, *args]

    def run(self, main: str, *args: str) -> None:
        """Run a class to its end.

        Raises:
            ClusterError: It fails.
        """
        done = subprocess.run(self.java(main, *args), capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"{self.name}: {(done.stderr or done.stdout)[-_LAST:]}")

    def start(self, main: str, *args: str) -> None:
        """Start the process."""
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                self.java(main, *args),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **self.environment},
            )

    def wait(self) -> None:
        """Wait until the node listens.

        Raises:
            ClusterError: It has ended, or does not listen in time.
        """
        deadline = Deadline(_START_SECONDS)
        while not is_listening(self.port):
            if self._process is None or self._process.poll() is not None or deadline.has_passed:
                raise ClusterError(f"{self.name} does not start: {self._output.read_text(errors='replace')[-_LAST:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop the process; kill it if it does not end in time."""
        process, self._process = self._process, None
        if process is not None:
            stop_process(process, self.name)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the process (SIGSTOP) inside the block."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    @property
    def _output(self) -> Path:
        return self.folder / "output"
