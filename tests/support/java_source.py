"""Programs of one Java source file, run with the broker's jars."""

import shutil
from pathlib import Path

from quota.errors import BadInput


def java_command(source: Path, jars: Path, *arguments: str) -> list[str]:
    """Return the command that compiles and runs a source file."""
    java = shutil.which("java")
    if java is None:
        raise BadInput("no java found; install a JDK 17 or newer")
    return [java, "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{jars}/*", str(source), *arguments]
