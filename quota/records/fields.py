"""Types of record fields: timestamps, rates, durations, and the size of numbers in tables."""

import sys
from typing import Annotated

import msgspec

MAX_EPOCH_MS = 253_402_300_799_999
"""The last millisecond of the year 9999; later times are typing errors."""

BEGINNING = -(2**63)
"""A time before all timestamps: a change at this time has always been in effect."""

EpochMs = Annotated[int, msgspec.Meta(ge=0, le=MAX_EPOCH_MS)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=sys.float_info.max)]
DebtMs = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1, extra={"bits": 64})]
Int = Annotated[int, msgspec.Meta(extra={"bits": 32})]
"""A number that a table stores in 32 bits, which is not checked; numbers without a bound of 32 bits have 64."""
