"""The streaming query that decides mutation requests: it writes decisions and dead letters.

May import: quota, schemas, and jobs.spark and storage.
"""
