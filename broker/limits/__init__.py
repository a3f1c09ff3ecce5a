"""Limits: what one client, user or address may use of the broker.

`connection_slots` counts connections, `subscription_total` subscriptions; `matches` bounds what one
message may match. `quota` is the count by key that these and others keep. `meter` paces reading by
token buckets. `fair_queue` lets users, addresses or connections take turns. `principal` is the key
that use is charged to: the user, or without users the address.

Those above ask these, the replays among them; none of them knows a session.
"""
