"""The commands that evaluate recorded requests and decisions.

May import: `jobs.cli`, `jobs.audit`, `jobs.report`, `jobs.storage`, `jobs.whatif`, `quota`.
"""
