"""Moments: milliseconds since the epoch."""

from typing import Annotated

import msgspec

LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999: later times are typing errors."""

EpochMs = Annotated[int, msgspec.Meta(ge=0, le=LATEST)]
