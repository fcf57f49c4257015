"""What was measured on, and with what."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("pyspark", "delta-spark", "confluent-kafka", "pandas", "pyarrow", "msgspec", "limits", "pyrate-limiter")


def machine() -> dict[str, str | int | float]:
    """Processors, memory, system and versions; nothing that tells whose machine it is."""
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
        **{package: version(package) for package in PACKAGES},
    }


def load() -> float:
    """How many processes wanted to run during the last minute; what others do on the machine is noise."""
    return os.getloadavg()[0]


def _lines(file: str) -> list[str]:
    path = Path(file)
    return path.read_text().splitlines() if path.exists() else []
