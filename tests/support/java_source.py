"""Programs of one Java source file, run with the broker's jars."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from jobs.installation import java_program
from quota.errors import ClusterError
from tests.support.programs import JVM_OPTIONS


def java_command(source: Path, jars: Path, options: str = JVM_OPTIONS) -> list[str]:
    """Return the command that compiles and runs a source file."""
    return [str(java_program()), "-Xmx256m", *options.split(), "-cp", f"{jars}/*", str(source)]


class JavaProgram:
    """A program that answers lines with lines."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @classmethod
    @contextmanager
    def running(cls, source: Path, jars: Path, options: str = JVM_OPTIONS) -> Iterator[Self]:
        """Run a source file inside the block."""
        command = java_command(source, jars, options)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                yield cls(process)
            finally:
                process.stdin.close()  # its end of input

    def write(self, *lines: str) -> None:
        """Write lines."""
        self._process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self._process.stdin.flush()

    def read(self) -> str:
        """Return the next line."""
        line = self._process.stdout.readline()
        if not line:
            raise ClusterError("the JVM with Kafka's classes has ended; its output is above")
        return line.decode().rstrip("\n")
