"""The report: one HTML page on the records of the audit.

May import: quota, schemas, and jobs.audit, metrics and storage.
"""
