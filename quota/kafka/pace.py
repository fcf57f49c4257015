"""The time that decisions take, by which a program knows which requests would be written in vain."""

from collections import deque

_LEAST_SECONDS = 0.1
"""The least time for a decision: it is written, read by the job, written by it and read again."""
_MAX_TIMES = 10


class Pace:
    """The silence of the enforcing job, and the times that its last decisions took. Times are seconds of one clock.

    A job is silent if nothing was decided for `silent_after`, although a request waits for it.
    """

    def __init__(self, silent_after: float) -> None:
        self._silent_after = silent_after
        self._sent_at = 0.0
        self._waiting_since: float | None = None
        self._times: deque[tuple[float, float]] = deque(maxlen=_MAX_TIMES)  # when decided, and the time that it took

    def sent(self, now: float) -> None:
        """Take that a request was sent."""
        self._sent_at = now
        if self._waiting_since is None:
            self._waiting_since = now

    def decided(self, now: float, seconds: float) -> None:
        """Take that a request was decided, and the time that it took. One that outlasted a silence tells nothing."""
        self._waiting_since = None
        if seconds < self._silent_after:
            self._times.append((now, seconds))

    def rejected(self) -> None:
        """Take that no request is left that a decision could be missing for."""
        self._waiting_since = None

    def waiting(self, now: float) -> float:
        """Return the time for which a request has waited and no other was decided."""
        return 0.0 if self._waiting_since is None else now - self._waiting_since

    def is_due(self, now: float) -> bool:
        """Return whether a silent job is to be tried again."""
        return min(self.waiting(now), now - self._sent_at) >= self._silent_after

    def least(self, now: float) -> float:
        """Return the least time that a decision takes, as far as is known.

        It takes as long as the quickest of the last ones, and no less than another has already waited for one: the job
        decides requests in their order. What was seen is forgotten after `silent_after`, so that it is tried again.
        """
        quickest = min((took for at, took in self._times if now - at < self._silent_after), default=0.0)
        return max(min(_LEAST_SECONDS, self._silent_after), quickest, self.waiting(now))

    def is_enough(self, seconds: float, now: float) -> bool:
        """Return whether a request may be decided within a time."""
        return self.waiting(now) < seconds >= self.least(now)
