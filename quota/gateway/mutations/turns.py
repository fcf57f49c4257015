"""The turns in which a user's growths are validated: the controller handles one request at a time."""

from collections import OrderedDict
from collections.abc import Callable, Generator
from typing import Any

from quota.gateway.mutations.operations import BrokerCall, Pause, Validated

_PAUSES_MS = (10, 500)
"""The pause before a channel looks again whether it is its turn, for each channel before it, and the longest one."""


class Turns:
    """Runs steps one at a time for each user, in the order in which they came.

    A call has its turn until its time is over, so that a broker that does not answer holds up no longer than that.
    """

    def __init__(self) -> None:
        self._turns: dict[str, OrderedDict[int, int]] = {}
        """The end of the time of each call that runs or waits, by user and by the call's number."""

    def run(
        self,
        user: str,
        steps: Generator[BrokerCall, dict[str, Any], Validated],
        ends_at: int,
        clock: Callable[[], int],
    ) -> Generator[BrokerCall | Pause, dict[str, Any], Validated | None]:
        """Run steps when those of all earlier calls for this user have ended; None if the time is over before that."""
        turns = self._turns.setdefault(user, OrderedDict())
        turn = next(reversed(turns), 0) + 1
        turns[turn] = ends_at
        pause, longest = _PAUSES_MS
        try:
            while (now := clock()) < ends_at:
                while (first := next(iter(turns))) != turn and turns[first] <= now:
                    del turns[first]
                if first == turn:
                    return (yield from steps)
                yield Pause(min((turn - first) * pause, longest, ends_at - now))
            return None
        finally:  # also when the client has left
            turns.pop(turn, None)
            if not turns and self._turns.get(user) is turns:
                del self._turns[user]
