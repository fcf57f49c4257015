"""Records the request logs of real brokers of several versions, and what their clients sent and received."""
