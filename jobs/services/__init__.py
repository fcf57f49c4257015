"""The long-running programs: enforce, audit, minutes, apply, the gateway, and quotas push --follow.

May import: quota, schemas, jobs.background, and jobs.spark, metrics, storage, audit, enforce and buckets.
"""
