"""The columns of records, tables and state, each with its meaning, as Spark types."""
