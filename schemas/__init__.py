"""The columns of records, tables and state, each with its meaning, as Spark types.

May import: pyspark.sql.types; the two generators `json_schemas` and `table_docs` also import quota.records.
"""
