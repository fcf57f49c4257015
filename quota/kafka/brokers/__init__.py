"""Calls to brokers with our own codecs, where confluent-kafka has no API: TLS, SASL, client quotas, log end offsets.

May import: all of `quota` below `quota.kafka`, `quota.kafka.timing`.
"""
