"""The Java programs of this folder: compiled against the broker's jars, and run."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from quota.errors import MutationQuotaError
from tests.evidence.gateway.observation import Observation, observed
from tests.evidence.gateway.sides import Side
from tests.support.programs import JVM_OPTIONS

_SOURCES = Path(__file__).parent / "java"
_SECONDS = 300

_LOG4J = """\
rootLogger.level=OFF
"""


class JavaPrograms:
    """The programs of some source files, compiled into a folder."""

    def __init__(self, folder: Path, sources: Sequence[str], *class_path: Path) -> None:
        """Compile the programs."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        jars = ":".join(f"{each}/*" for each in class_path)
        self._class_path = f"{folder}:{jars}"
        (folder / "log4j2.properties").write_text(_LOG4J)
        files = [str(_SOURCES / f"{each}.java") for each in sources]
        command = ["javac", "-proc:none", "-nowarn", "-d", str(folder), "-cp", jars, *files]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MutationQuotaError(f"javac: {done.stderr}")

    def command(self, main: str, *args: str) -> list[str]:
        """Return the command line that runs a class."""
        log4j = f"-Dlog4j2.configurationFile={self._folder}/log4j2.properties"
        return ["java", *JVM_OPTIONS.split(), "-Xmx128m", log4j, "-cp", self._class_path, main, *args]

    def observe(self, side: Side, main: str, *args: str) -> list[Observation]:
        """Run a program that writes observations, with the side as its first arguments."""
        return observed(side, main, self.command(main, side.name, side.address, *args), _SECONDS)
