"""Calls to brokers with our own codecs, where confluent-kafka has no API: TLS, SASL, client quotas, log end offsets."""
