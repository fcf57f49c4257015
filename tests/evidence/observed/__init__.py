"""A storm that is observed by the broker's request log, quotas that follow from it, and the same storm under them."""
