"""An archive of the classes that a JVM loads (class-data sharing), which shortens its next start by a third.

A start of `enforce` loads and verifies some 20,000 classes. Java writes the classes of a run to a file when the JVM
exits, and maps this file at the next start. Classes that no longer fit this Java or these jars are loaded as usual.
"""

import hashlib
import logging
from collections.abc import Iterable
from pathlib import Path
from secrets import token_hex

from jobs.spark.installation import java_program

_log = logging.getLogger(__name__)

SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""Options of a JVM that logs nothing about its archive."""


class ClassArchive:
    """The archive of a program, for these jars and this Java, in a folder of archives."""

    def __init__(self, folder: Path, program: str, jars: Iterable[Path]) -> None:
        self._name = program.replace(" ", "-")
        files = [java_program().resolve(), *sorted(jars)]
        facts = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        self._file = folder / f"{self._name}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}.jsa"
        self._written = self._file.with_suffix(f".{token_hex(4)}")

    def options(self) -> str:
        """Return the JVM's options, quoted for Spark: to use the archive, or to write it at the end."""
        if self._file.exists():
            return f'"-XX:SharedArchiveFile={self._file}" {SILENT}'
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            _log.warning("no class archive, so starts take longer: %s", error)
            return ""
        return f'"-XX:ArchiveClassesAtExit={self._written}" {SILENT}'

    def save(self, *, ended: bool) -> None:
        """Replace older archives with the one that the JVM wrote; discard it if the JVM did not exit by itself."""
        try:
            if ended and self._written.exists():
                for older in self._file.parent.glob(f"{self._name}-{'?' * 16}.jsa"):
                    older.unlink(missing_ok=True)
                self._written.rename(self._file)
            self._written.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("the class archive was not saved: %s", error)
