"""A quota as an operator sets it, and the window that turns its rate into a burst."""

import sys
from dataclasses import dataclass
from typing import Any

import msgspec

from quota.records.fields import DebtMs, Positive
from quota.text import format_configs

RATE_CONFIG, BURST_CONFIG = "controller_mutation_rate", "controller_mutation_burst"


class Quota(msgspec.Struct, frozen=True, omit_defaults=True, rename={"rate": RATE_CONFIG, "burst": BURST_CONFIG}):
    """A quota: a rate in partition mutations per second, and options that Kafka does not have."""

    rate: Positive
    burst: Positive | None = None
    """The mutations that may be made at once; None for KIP-599's Q * S * W."""
    max_debt_ms: DebtMs | None = None
    """The longest throttle time that one large mutation can cause: debt beyond it is forgiven. None for no limit."""
    shadow: bool = False
    """Whether the quota is evaluated and reported but not enforced: everything is admitted."""

    def __str__(self) -> str:
        """Return the quota in the notation of `--add-config`."""
        return format_configs(self.configs)

    @property
    def configs(self) -> dict[str, Any]:
        """The values of the configs, by their names."""
        return {name: getattr(self, field) for name, field in QUOTA_CONFIGS.items()}

    @property
    def bounds(self) -> tuple[float, float | None, int | None]:
        """The rate, burst and maximum debt: everything that changes the tokens of a bucket."""
        return self.rate, self.burst, self.max_debt_ms


QUOTA_CONFIGS = {field.encode_name: field.name for field in msgspec.structs.fields(Quota)}
"""The configs of a quota, and the field of `Quota` that holds each."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A quota in force, and the time (epoch ms) since which its bucket has had these bounds."""

    quota: Quota
    since: int


@dataclass(frozen=True, slots=True)
class Window:
    """The window S * W of a quota, which determines its default burst.

    `num` is `controller.quota.window.num` (S, samples), `size_seconds` is `controller.quota.window.size.seconds` (W);
    the defaults are Kafka's.
    """

    num: int = 11
    size_seconds: int = 1

    @property
    def size_ms(self) -> int:
        """W in milliseconds."""
        return self.size_seconds * 1000

    @property
    def total_ms(self) -> int:
        """S * W in milliseconds."""
        return self.num * self.size_ms

    def burst(self, rate: float, own: float | None = None) -> float:
        """Return B in mutations: a quota's own burst, or Q * S * W, which is finite for every finite rate."""
        return own if own is not None else min(rate * self.num * self.size_seconds, sys.float_info.max)
