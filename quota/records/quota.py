"""What an operator grants an entity: a rate, and what may go with it."""

import re
from dataclasses import dataclass

_NUMBER = re.compile(r"[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Quota:
    """A quota as it is set: `rate` in partition mutations per second, and options that Kafka has not."""

    rate: float
    burst: float | None = None
    """How many mutations may be made at once; None for KIP-599's Q * S * W."""
    max_debt_ms: int | None = None
    """The longest wait that one large mutation can bring, by forgiving the debt beyond; None for no bound."""
    shadow: bool = False
    """Decide and report, but admit."""

    @property
    def bounds(self) -> tuple[float, float | None, int | None]:
        """What a bucket is filled and emptied by."""
        return self.rate, self.burst, self.max_debt_ms


@dataclass(frozen=True, slots=True)
class Limit:
    """A quota in force, and the moment (epoch ms) since which its bucket has had these bounds."""

    quota: Quota
    since: int


def read_number(text: str) -> float | None:
    """A number as people write one; None for what Python or YAML alone would take for one, as 1_000, nan and 1:30."""
    return float(text) if _NUMBER.fullmatch(text) else None
