"""The machine of a measurement, and its load."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

_PACKAGES = ("pyspark", "delta-spark", "confluent-kafka", "pandas", "pyarrow", "msgspec", "limits", "pyrate-limiter")


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


def _lines(file: str) -> list[str]:
    path = Path(file)
    return path.read_text().splitlines() if path.exists() else []
