"""The path of every message, from a read to the outboxes.

    plane: parse, look up, number, offer --> gate: what leaves when --> connection: an outbox

`outbox_writer` is the one way into outboxes, for live, replayed and answered messages; `frame`
writes a message's line and head in five shapes. `guard` says what a user may publish and subscribe
to. `staged_rows`, `replay_writer` and `reply_publisher` bring messages that come from elsewhere.
`backpressure` holds publishers back for slow subscribers. `client_session` and `plane_control` are
what this room asks of the clients' room.
"""
