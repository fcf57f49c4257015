"""The JVM that a process starts for Spark: its lifecycle and its class archive.

May import: quota, and jobs.spark.installation.
"""
