"""Brokers' request logs: which mutations clients asked a cluster for, what they cost, and what it answered.

May import: quota.errors, quota.text and quota.records.
"""
