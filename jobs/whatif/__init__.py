"""What-if evaluations with Spark or of files: simulate, backtest, recommend and observe compare.

May import: all of quota and schemas; jobs.spark, jobs.storage, jobs.audit.
"""
