"""The largest records that topics have to take."""

GROWTH = 6
"""An answer is at most this many times as large as its record's key and value, and `ENVELOPE` bytes more.

Six bytes for one is what JSON makes of a control character; a topic that is refused grows fivefold.
"""

ENVELOPE = 8192
