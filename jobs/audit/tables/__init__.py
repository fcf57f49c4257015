"""The Delta tables: their definitions, and how they are prepared, opened and read.

May import: quota, schemas, and jobs.spark and storage.
"""
