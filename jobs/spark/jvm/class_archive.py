"""An archive of the classes that a JVM loads (class-data sharing), which shortens its next start by a third.

A start of `enforce` loads and verifies some 20,000 classes. Java writes those of a run into a file when the JVM ends,
and maps them from there the next time; what does not fit this Java or these jars any more, it loads as ever.
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
        """Look for the archive of these jars and this Java.

        Args:
            folder: the folder of all archives; it is created if it does not exist.
            program: the name of the program, which has an archive of its own.
            jars: all jars on the class path.

        Raises:
            BadInput: there is no Java.
        """
        self._program = program.replace(" ", "-")
        self._file = folder / f"{self._program}-{_fingerprint(jars)}.jsa"
        self._written = self._file.with_suffix(f".{token_hex(4)}")

    @property
    def options(self) -> str:
        """The JVM's options, quoted as Spark reads them: to use the archive, or to write it at the end."""
        if self._file.exists():
            return f'"-XX:SharedArchiveFile={self._file}" {_SILENT}'
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._written.touch()  # tells a folder that nobody may write to
            self._written.unlink()
        except OSError as error:
            _log.warning("no class archive, so starts take longer: %s", error)
            return ""
        return f'"-XX:ArchiveClassesAtExit={self._written}" {_SILENT}'

    def keep(self, *, ended: bool) -> None:
        """Keep what the JVM has written, which has ended by itself or was killed; older archives are removed."""
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
    """Return what tells these jars and this Java from others."""
    files = [java_program().resolve(), *sorted(jars)]
    facts = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:_DIGITS]
