"""The quota topic: its log, read to the end that is sure, and changes written to it.

May import: all of `quota.kafka` below it.
"""
