"""The upkeep of the Delta tables: small files are compacted, expired rows are deleted, and unused files are removed.

May import: quota, schemas, jobs.background, jobs.storage, jobs.audit.tables and jobs.audit.quota_changes.
"""
