"""The jobs' use of Spark: the session, its properties and workers, the lifecycle of queries, and the Kafka source."""
