"""Measures latency, throughput, starts and the decision next to their limits, into docs/evidence/performance.md."""
