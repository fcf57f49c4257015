"""What services answer to probes, and the HTTP server that serves the answers and the metrics.

Only `queries` knows Spark. May import: quota, and jobs.background.
"""
