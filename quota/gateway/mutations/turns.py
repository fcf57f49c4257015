"""The turns in which a user's growths are validated: the controller handles one request at a time."""

from collections import OrderedDict
from collections.abc import Generator
from typing import Any

from quota.gateway.mutations.operations import BrokerCall, Pause, Validated

_PAUSES_MS = (10, 500)
"""The pause before a channel looks again whether it is its turn, for each channel before it, and the longest one."""


class Turns:
    """Runs steps one at a time for each user, in the order in which they came."""

    def __init__(self) -> None:
        self._turns: dict[str, OrderedDict[int, None]] = {}

    def run(
        self, user: str, steps: Generator[BrokerCall, dict[str, Any], Validated]
    ) -> Generator[BrokerCall | Pause, dict[str, Any], Validated]:
        """Run steps when those of all earlier calls for this user have ended."""
        turns = self._turns.setdefault(user, OrderedDict())
        turn = next(reversed(turns), 0) + 1
        turns[turn] = None
        pause, longest = _PAUSES_MS
        try:
            while (ahead := turn - next(iter(turns))) > 0:
                yield Pause(min(ahead * pause, longest))
            return (yield from steps)
        finally:  # also when the client has left
            del turns[turn]
            if not turns:
                del self._turns[user]
