"""A member of a cluster: what its core (sequencer/replica) asks for, on sockets, files and etcd.

    engine/   etcd, where the view is          links/    connections between the members
    storage/  the member's files

`cluster_member` puts the parts together, in a cluster only. `driver` turns events into calls of the
core, and carries out its actions. `cluster_plane` is the plane of a member: it delivers what is
committed. `group_takers` and `group_shares` are queue groups over members, `feed_sender` the feeds.
`direct_exchange` passes messages without a number on to other members, in blocks (`direct_block`).
`row_plane` numbers rows of batches, which are staged and promised as on a single broker
(broker/staging). `awaited_numbers` holds requests until a number may be shown. `operator_service`
answers the `seriatim cluster` commands; `cluster_watch`, `cluster_health` and `cluster_report` tell
people.
"""
