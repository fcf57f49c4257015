"""The project's codec of Kafka's protocol beside Kafka's own generated classes."""
