"""What-if as Spark jobs and over files: simulate, backtest, recommend.

May import: all of quota and schemas; jobs.spark, jobs.storage, jobs.audit.
"""
