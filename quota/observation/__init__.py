"""Brokers' request logs: the mutations that clients requested, their costs, and the cluster's answers.

May import: quota.errors, quota.text and quota.records.
"""
