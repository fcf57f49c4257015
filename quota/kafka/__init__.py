"""Everything that talks to Kafka, with confluent-kafka: reading and writing topics, the clients and the applier.

May import: all of `quota` but `quota.testing`.
"""
