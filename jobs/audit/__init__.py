"""The Delta tables: the queries that write them, and the readers that need no Spark."""
