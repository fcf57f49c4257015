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

_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


class ClassArchive:
    """The archive of a program, in a folder of archives."""

    def __init__(self, folder: Path, program: str, jars: Iterable[Path]) -> None:
        """Locate the archive for these jars and this Java.

        Args:
            folder: the folder of all archives; it is created if it does not exist.
            program: the name of the program; each program has its own archive.
            jars: all jars on the class path.

        Raises:
            BadInput: there is no Java.
        """
        self._program = program.replace(" ", "-")
        self._file = folder / f"{self._program}-{_fingerprint(jars)}.jsa"
        self._written = self._file.with_suffix(f".{token_hex(4)}")

    @property
    def options(self) -> str:
        """The JVM's options, quoted for Spark: to use the archive, or to write it at the end."""
        if self._file.exists():
            return f'"-XX:SharedArchiveFile={self._file}" {_SILENT}'
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._written.touch()  # detects a folder without write permission
            self._written.unlink()
        except OSError as error:
            _log.warning("no class archive, so starts take longer: %s", error)
            return ""
        return f'"-XX:ArchiveClassesAtExit={self._written}" {_SILENT}'

    def save(self, *, ended: bool) -> None:
        """Replace older archives with the one that the JVM wrote; discard it if the JVM did not exit by itself."""
        if not self._written.exists():
            return
        try:
            if not ended:
                self._written.unlink()
                return
            for older in self._file.parent.glob(f"{self._program}-{'?' * _DIGITS}.jsa"):
                older.unlink(missing_ok=True)
            self._written.rename(self._file)
        except OSError as error:
            _log.warning("the class archive was not saved: %s", error)


_DIGITS = 16


def _fingerprint(jars: Iterable[Path]) -> str:
    """Return a fingerprint of these jars and this Java."""
    files = [java_program().resolve(), *sorted(jars)]
    facts = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:_DIGITS]
