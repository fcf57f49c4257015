"""The project's bucket next to Kafka's own classes, which run in a JVM of their own."""
