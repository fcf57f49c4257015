"""The health of services, and the HTTP server that serves health and metrics.

Only `queries` uses Spark. May import: quota, jobs.background and jobs.metrics.
"""
