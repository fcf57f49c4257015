"""The programs: streaming queries on Spark, Delta tables, metrics, reports, and the command line over all of them."""
