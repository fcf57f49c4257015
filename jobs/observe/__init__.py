"""Imports and follows the request log files of brokers.

May import: quota.
"""
