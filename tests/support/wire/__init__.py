"""Random messages of Kafka's protocol, and damaged forms of them."""
