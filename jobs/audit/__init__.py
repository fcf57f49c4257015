"""The Delta tables: the queries that write them, and the readers that need no Spark.

May import: quota, schemas, jobs.background, and jobs.spark and storage.
"""
