"""Everything that talks to Kafka: reading and writing topics, the clients and the applier, with confluent-kafka."""
