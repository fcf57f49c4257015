"""Moments: milliseconds since the epoch."""

import sys
from typing import Annotated

import msgspec

LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999: later times are typing errors."""

EpochMs = Annotated[int, msgspec.Meta(ge=0, le=LATEST)]


Positive = Annotated[float, msgspec.Meta(gt=0, le=sys.float_info.max)]
DebtMs = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


SINCE_EVER = -(2**63)
"""The moment of a change that has always held."""
