"""Types of record fields: timestamps, rates, durations, and the size of numbers in tables."""

import sys
from typing import Annotated

import msgspec

MAX_EPOCH_MS = 253_402_300_799_999
"""The last millisecond of the year 9999; later times are typing errors."""

BEGINNING = -(2**63)
"""A time before all timestamps: a change at this time has always been in effect."""

Name = Annotated[str, msgspec.Meta(min_length=1)]
EpochMs = Annotated[int, msgspec.Meta(ge=0, le=MAX_EPOCH_MS)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=sys.float_info.max)]
DebtMs = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1, extra={"bits": 64})]
Int16 = Annotated[int, msgspec.Meta(ge=-(2**15), le=2**15 - 1)]
Int32 = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""A number that is not negative; a table stores it in 32 bits, and numbers without such a bound in 64."""
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
