"""The debts of clients, as their last decisions told them."""

from collections import OrderedDict
from dataclasses import dataclass

_FRESH_MS = 1000
"""How long a decision answers for the next one: a change of the quota, or a reset of the bucket, ends the debt."""
_MAX_CLIENTS = 10_000


@dataclass(frozen=True, slots=True)
class Debt:
    """The debt of a client. Times are ms of one monotonic clock."""

    ends_at: int
    decided_at: int

    def is_fresh(self, now: int) -> bool:
        """Return whether the decision is so new that another one would tell the same debt."""
        return now - self.decided_at < _FRESH_MS


class Debts:
    """The debts of the clients that were decided last."""

    def __init__(self) -> None:
        self._debts: OrderedDict[tuple[str, str | None], Debt] = OrderedDict()

    def record(self, client: tuple[str, str | None], throttle_ms: int, now: int) -> None:
        """Record the throttle time of a decision, by user and client-id."""
        self._debts.pop(client, None)
        if throttle_ms:
            self._debts[client] = Debt(now + throttle_ms, now)
            if len(self._debts) > _MAX_CLIENTS:
                self._debts.popitem(last=False)

    def find(self, client: tuple[str, str | None], now: int) -> Debt | None:
        """Return the debt of a client that is not paid off yet, as far as is known."""
        known = self._debts.get(client)
        return known if known is not None and known.ends_at > now else None
