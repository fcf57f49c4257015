"""The commands on the audit's tables: their rows, and their upkeep."""
