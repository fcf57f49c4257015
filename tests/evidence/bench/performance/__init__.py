"""Measures latency, throughput, state and audit next to their limits, into docs/performance.md."""
