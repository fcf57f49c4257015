"""Measures the cost of the gateway next to a direct connection; writes docs/evidence/gateway/gateway-cost.md."""
