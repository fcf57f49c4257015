"""The machine of a measurement, its load, and the processor time of processes."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

_PACKAGES = ("pyspark", "delta-spark", "confluent-kafka", "pandas", "pyarrow", "msgspec", "limits", "pyrate-limiter")

_USER_TIME = 11
"""Place of the user time in `/proc/PID/stat` after the name; the system time follows."""


def machine() -> dict[str, str | int | float]:
    """Return processors, memory, system and versions; nothing that identifies the machine."""
    cpu = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = [int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")]
    java = subprocess.run(["java", "-version"], check=True, capture_output=True, text=True).stderr.splitlines()[0]
    return {
        "cores": os.cpu_count() or 0,
        "processor": cpu[0] if cpu else platform.machine(),
        "memory_gib": round(memory[0] / 2**20, 1) if memory else 0.0,
        "system": platform.system(),
        "python": platform.python_version(),
        "java": java,
        **versions(*_PACKAGES),
    }


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python and of packages, by default of those that the jobs run on."""
    named = packages or ("pyspark", "delta-spark", "confluent-kafka")
    return {**{package: version(package) for package in named}, "python": platform.python_version()}


def load() -> float:
    """Return the load of the last minute; the work of other programs is noise."""
    return os.getloadavg()[0]


def processor_seconds(process: int) -> float:
    """Return the processor time (s) that a process and its descendants have taken so far."""
    ticks = 0
    for pid in _family(process):
        fields = " ".join(_lines(f"/proc/{pid}/stat")).rpartition(")")[2].split()
        ticks += sum(map(int, fields[_USER_TIME : _USER_TIME + 2]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _family(process: int) -> set[int]:
    parents = {int(file.parent.name): _field(file, "PPid") for file in Path("/proc").glob("[0-9]*/status")}
    started = {process}
    while more := {child for child, parent in parents.items() if parent in started} - started:
        started |= more
    return started


def _field(file: Path, name: str) -> int:
    values = [line.split()[1] for line in _lines(str(file)) if line.startswith(f"{name}:")]
    return int(values[0]) if values else 0


def _lines(file: str) -> list[str]:
    path = Path(file)
    return path.read_text().splitlines() if path.exists() else []
