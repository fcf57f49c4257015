"""The gateway without I/O: what becomes of the requests and answers of one client's connection, in Kafka's protocol.

`channel.Channel` takes bytes from the client and from its broker, and gives bytes for both. A request that changes
topics becomes a mutation request, whose decision is awaited (`mutations`).

May import: client, records, wire.
"""
