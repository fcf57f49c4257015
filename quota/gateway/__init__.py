"""The gateway without I/O: it processes the requests and responses of client connections, in Kafka's protocol.

`channel.Channel` takes bytes from the client and from its broker, and returns bytes for both. A request that changes
topics becomes a mutation request, whose decision is awaited (`mutations`).
"""
