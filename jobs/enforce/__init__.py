"""The streaming query that decides: mutation requests in, decisions and dead letters out.

May import: quota, schemas, and jobs.spark and storage.
"""
