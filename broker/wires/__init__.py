"""Wires: bytes between the broker and a client, over TCP, TLS or WebSocket, and what they prove.

A listener (`bound_listener`) says what is spoken on its port. `wire` is what all of them offer to a
session; `plain_wire`, `tls_wire` and `websocket_wire` do it, and `either_wire` waits for the first
byte to choose.

`tls_contexts` makes contexts of files; `certificate_parts`, `certificate_names`,
`certificate_subject` and `distinguished_name` read a client's certificate. `connect` reads the
options of a CONNECT as nats-server does (`go_json`). `disconnect_log` says why a client has gone,
without its credentials (`redaction`).

`broker.clients.wired_session` uses a wire; nothing here knows a session.
"""
