"""The report: one HTML page on the records of the audit.

May import: quota, and jobs.audit and storage.
"""
