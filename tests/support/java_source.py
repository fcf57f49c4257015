"""Java of the tests: programs of one source file, run with the broker's jars, and source files that are compiled."""

import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from jobs.installation import java_program
from quota.errors import ClusterError, MutationQuotaError
from tests.support.programs import JVM_OPTIONS


def java_command(source: Path, jars: Path, options: str = JVM_OPTIONS) -> list[str]:
    """Return the command that compiles and runs a source file."""
    return [str(java_program()), "-Xmx256m", *options.split(), "-cp", f"{jars}/*", str(source)]


def compile_java(sources: Iterable[Path], class_path: str, folder: Path) -> None:
    """Compile source files into a folder.

    Raises:
        MutationQuotaError: The compiler reports an error.
    """
    command = ["javac", "-J-XX:TieredStopAtLevel=1", "-proc:none", "-nowarn", "-d", str(folder), "-cp", class_path]
    done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise MutationQuotaError(f"javac: {done.stderr}")


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
