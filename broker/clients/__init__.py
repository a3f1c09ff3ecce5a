"""NATS clients: from an accepted socket to a subscription, for each connection.

    listening --> acceptor --> wiring --> session, with its gatherer
    gatherer ---> (plane: PUB) or control: CONNECT, SUB, UNSUB, $SEQ. requests

`roster` has all clients: who they are, the room for them, and what their sessions share. `session`
is one connection: asyncio's transport, flushing, waiting, closing; `wired_session` is one behind
TLS or WebSocket, whose handshakes take turns. `gatherer`, `turn_pace` and `inbox` read all clients'
sockets. `admission` knows a client from its first byte until its user is known. `control` has the
rules for everything but plain messages, with `pinging` and `request_handler`; `subscriptions` has
SUB and UNSUB. `closed_connections` keeps the last ones for /connz.

To find: a client that reads too slowly is cut off in `session` (`cut_off`), and all of them
together in `control`; one that publishes too fast waits in `metering`; those that bring too much
work take turns (`gatherer.work_queue`); `subscription_reaper` removes what is left of closed ones;
`lame_duck` closes all.
"""
