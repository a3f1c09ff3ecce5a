"""The broker's process: from bytes on a socket to numbered messages in outboxes, and all around it.

    process --> server --> cluster, monitor, feeds, staging, cquencer --> clients --> core
    core --> storage, auth --> wires, limits --> replay, settings --> dataplane --> runtime

Arrows are imports; lint-imports holds them. `launch` begins a process, `process` turns signals
into calls of the server, and `server` has the listeners, the sessions, start and stop. `core` is
what all rooms share: they take it, and none of them knows the server. `info_line` makes INFO,
`rehearsal` tries settings without serving, and `cluster_side` is what a server asks of a cluster's
member.
"""
