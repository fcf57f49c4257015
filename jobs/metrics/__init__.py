"""The metrics that the jobs serve to Prometheus.

May import: quota, and jobs.background.
"""
