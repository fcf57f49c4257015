"""What the gateway costs beside a direct connection, in one run, into docs/gateway-cost.md."""
