"""The columns of records, tables and state, each with its meaning, as Spark types.

May import: pyspark.sql.types; `json_schemas`, `table_docs` and `documents` also import quota.
"""
