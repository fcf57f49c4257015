"""The names of queries and services: in checkpoints and leases, in the log, and in the label `query` of metrics."""

from typing import Final

ENFORCE: Final = "enforce"
AUDIT: Final = "audit"
APPLIER: Final = "applier"
GATEWAY: Final = "gateway"
OBSERVER: Final = "observe"
PUSH: Final = "push"
