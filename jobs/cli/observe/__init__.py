"""The commands that read brokers' request logs.

May import: `jobs.cli.options`, `jobs.cli.output` and what is below `jobs.cli`.
"""
