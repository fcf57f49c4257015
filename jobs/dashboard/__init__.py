"""The dashboard: a page that shows requests, tenants and quotas as they change, from the topics alone.

May import: quota, jobs.metrics and jobs.report (its library, charts and style).
"""
