"""Brokers' request logs: the mutations that clients requested, their costs, and the cluster's answers."""
