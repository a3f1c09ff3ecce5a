"""The wire protocol: parses the bytes a NATS client sends into operations.

`machine` is the byte machine, with a short cut for `PUB subject [reply] size`; `table` its
transitions, `ops` its operations, `errors` its refusals. It copies nothing.
"""
