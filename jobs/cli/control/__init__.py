"""The commands that describe and change quotas, buckets, callbacks and users' topics.

May import: `jobs.cli`, `jobs.buckets`, `jobs.services`, `jobs.spark`, `quota`.
"""
