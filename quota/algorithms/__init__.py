"""The token bucket that is enforced: its state, its formulas, repeated requests, and Kafka's metric of the rate."""
