"""The state of a deployment, read without Spark and without a JVM, and judged.

May import: quota, schemas, jobs.audit, metrics and storage.
"""
