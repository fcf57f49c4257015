"""The enforced token bucket, its state and formulas, and the rate quotas that KIP-599 rejected, for comparison."""
