"""Limits: what one client, user or address may use of the broker.

`connection_slots` counts connections, `subscription_total` subscriptions, `matches` and
`user_matches` what one message may match. `meter` paces reading by token buckets. `principal` is
the key that use is charged to: the user, or without users the address.

The clients' room asks these; none of them knows a session.
"""
