"""The gateway without I/O: what it does with the requests and answers of one client's connection, in Kafka's protocol.

`channel.Channel` takes bytes from the client and from its broker, and gives bytes for both. A mutation that it meets
becomes a mutation request (`mutation.mutate`), whose decision is awaited.
"""
