"""The token bucket that is enforced, its state and formulas, and the rate quotas that KIP-599 rejected, for comparison.

May import: records, timeline (only `resolution`).
"""
