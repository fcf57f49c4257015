"""The project's bucket compared with Kafka's own classes, which run in a separate JVM."""
