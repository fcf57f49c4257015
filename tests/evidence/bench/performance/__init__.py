"""Measures latency, throughput, starts, takeovers and the decision, into docs/evidence/performance.md."""
