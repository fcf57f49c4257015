"""Measures latency, throughput, state and audit next to their limits, into docs/evidence/performance.md."""
