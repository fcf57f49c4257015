"""The Delta tables: their definitions, and how they are prepared, opened and read."""
