"""The programs: streaming queries on Spark, Delta tables, metrics, reports, and the command line over all of them.

May import: quota, schemas; packages import only packages below them.
"""
