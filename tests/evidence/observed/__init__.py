"""A storm that is observed in the broker's request log, and the same storm with the quotas that follow from it."""
