"""Brokers asked by our own codecs, for what confluent-kafka has no API: TLS, login and calls, and quotas of clients.

May import: all of `quota` below `quota.kafka`, `quota.kafka.timing`.
"""
