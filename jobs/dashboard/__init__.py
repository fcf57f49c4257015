"""The dashboard: a live page of requests, tenants and quotas, which reads only the topics.

May import: quota, jobs.background, jobs.metrics and jobs.report (its library, charts and style).
"""
