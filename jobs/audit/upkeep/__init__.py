"""The upkeep of the Delta tables: small files are compacted, expired rows are deleted, and unused files are removed."""
