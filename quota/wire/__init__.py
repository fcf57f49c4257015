"""Kafka's protocol as bytes and messages, without I/O but for the schemas in a jar of Kafka.

May import: errors, text.
"""
