"""The explanation of a recorded decision: the refill of its bucket, its charges, and the decision computed again."""
