"""Brokers' request logs as files: imported, or followed.

May import: quota.
"""
