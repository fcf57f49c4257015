"""Measures the cost of the gateway, compared with a direct connection; writes docs/evidence/gateway/gateway-cost.md."""
