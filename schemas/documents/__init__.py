"""The documents that commands print with `--output json`; `schemas/json/output` has a JSON Schema of each.

May import: quota.
"""
