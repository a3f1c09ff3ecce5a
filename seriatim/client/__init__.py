"""The client: what users import as `seriatim`, for asyncio and without it.

    connecting            connect(): who, where, how long
    stream_client         Client: publish, read, get, subscribe, request; connects again
    |-- stream_publishing     messages that wait for their numbers, each published once
    |-- stream_reading        Reader: resumes at the exact next number; position keeps its place
    |-- table_reading         a range as columns: message_table, chunk_columns, arrow_columns
    |-- stream_batch          a batch, whole or not at all
    `-- aio_wire              one connection: handshake, PINGs, batches of messages
    blocking_client       BlockingClient: the same words, over a loop in a thread
    protocol, scan        bytes in, events and messages out; commands in, bytes out
    stream_message, stream_info, errors, expect      what is handed over
    server_address, credentials, tls                 where to, who, and how safely
    bulk_connection       one blocking connection for large answers: Spark, `seriatim check`

It imports nothing of `parser`, `broker`, `sublist` or `sequencer`. So a user's own module of such
a name, next to a script, does no harm.
"""
