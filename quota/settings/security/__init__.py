"""TLS and SASL of connections to Kafka: their settings, the files that these name, and what the target inherits."""
