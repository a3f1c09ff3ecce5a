"""Cardinal Streams v1: blocks of a chain as messages, and back; imports no other package here.

`producer` makes messages of blocks (`draft`, `message_codec`, `schema`), `assembler` blocks of
messages, and `follower` a chain of blocks (`chain`, `branch`, `tree`, `lineage`). `transport/`
alone does I/O. `simulation` is a chain to try it with.
"""
