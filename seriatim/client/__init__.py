"""A NATS client: the protocol without I/O, with a blocking and an asyncio client on top of it.

    errors          what can go wrong
    server_address  nats://user:password@host:port, parsed and shown
    credentials     the credentials that CONNECT sends
    protocol        bytes in, events out; commands in, bytes out
    blocking        one blocking connection, for large answers
    aio             one asyncio connection, which can reconnect

The client imports nothing compiled, and nothing of `parser`, `broker`, `sublist` or `sequencer`. So
a user's own module of such a name, next to a script, does no harm.
"""
