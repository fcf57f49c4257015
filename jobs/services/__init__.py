"""The jobs as long-running programs: enforce, audit, minutes and apply.

May import: quota, schemas, jobs.background, and jobs.spark, metrics, storage, audit, enforce and buckets.
"""
