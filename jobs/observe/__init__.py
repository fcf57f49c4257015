"""Brokers' request logs as files: imported, or followed as they are written.

May import: quota.
"""
