"""The report: one HTML page of what the audit has recorded.

May import: quota, and jobs.audit and storage.
"""
