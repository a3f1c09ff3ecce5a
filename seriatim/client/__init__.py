"""A NATS client: the protocol without I/O, and a blocking and an asyncio face of it.

    errors          what can go wrong
    server_address  nats://user:password@host:port, read and shown
    credentials     who we are, as CONNECT says it
    protocol        bytes in, events out; commands in, bytes out
    blocking        one blocking connection, for large answers
    aio             one asyncio connection, which connects again where that is asked for

Nothing compiled is imported here, and nothing of `parser`, `broker`, `sublist` or `sequencer`:
a module of that name beside a user's script disturbs nothing.
"""
