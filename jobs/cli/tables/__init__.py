"""The commands on the audit's tables: their rows, and their upkeep.

May import: everything below `jobs.cli`, and the options that commands share.
"""
