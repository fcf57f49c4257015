"""Topic changes of the last seconds, which a broker's metadata may not show yet."""

import threading
from collections.abc import Iterable, Mapping

STALE_SECONDS = 5.0


class RecentChanges:
    """The numbers of partitions of recently changed topics. Thread-safe; the caller passes the time in seconds."""

    def __init__(self) -> None:
        self._changes: dict[str, tuple[int | None, float]] = {}  # partitions and time, oldest first
        self._lock = threading.Lock()

    def record(self, name: str, partitions: int | None, now: float) -> None:
        """Record that a topic has `partitions` partitions since `now`, or was deleted (None)."""
        with self._lock:
            self._changes.pop(name, None)
            self._changes[name] = partitions, now
            while now - next(iter(self._changes.values()))[1] > STALE_SECONDS:
                del self._changes[next(iter(self._changes))]

    def correct(self, reported: Mapping[str, int], names: Iterable[str], now: float) -> dict[str, int]:
        """Return the partitions of topics that a broker reported, corrected by recent changes."""
        names = set(names)
        corrected = {name: count for name, count in reported.items() if name in names}
        with self._lock:
            changes = {name: self._changes[name] for name in names & self._changes.keys()}
        for name, (partitions, changed_at) in changes.items():
            if now - changed_at > STALE_SECONDS:
                continue
            if partitions is None:
                corrected.pop(name, None)
            else:
                corrected[name] = max(partitions, corrected.get(name, 0))
        return corrected
