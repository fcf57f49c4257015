"""The services: enforce, audit, applier, gateway, dashboard, observe follow and quotas push --follow.

May import: quota, schemas, jobs.background, jobs.spark, metrics, storage, audit, enforce, buckets, gateway, observe and
dashboard.
"""
