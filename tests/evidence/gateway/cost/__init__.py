"""What the gateway costs beside a direct connection, in one run, into docs/evidence/gateway/gateway-cost.md."""
