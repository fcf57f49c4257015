"""The metrics that the jobs serve to Prometheus."""
