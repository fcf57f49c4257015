"""The quota log in time: the change each record makes, the quota of a request as of a moment, plans and quota files.

May import: records.
"""
