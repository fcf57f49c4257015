"""The project's codec of Kafka's protocol compared with Kafka's own generated classes."""
