"""The state of a deployment, read without Spark and without a JVM, with its problems.

May import: quota, schemas, jobs.audit, metrics and storage.
"""
