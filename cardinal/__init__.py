"""Cardinal Streams v1: blocks of a chain as messages, and back; imports no other package here."""
