"""Kafka's protocol as bytes and messages, without I/O except for reading the schemas."""
