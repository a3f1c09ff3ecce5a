"""The broker's process: from bytes on a socket to numbered messages in outboxes, and all around it.

    process --> monitor, reloading --> server --> cluster, feeds, staging, cquencer --> clients
    clients --> core --> storage, auth --> wires, limits --> replay --> settings --> dataplane

Arrows are imports; lint-imports holds them. `launch` begins a process, `process` turns signals
into calls of the server, and `server` makes all parts, starts and stops them, and writes INFO.
`core` is what all rooms share: they take it, and none of them knows the server. `rehearsal` tries
settings without serving, and `cluster_side` is what a server asks of a cluster's member.
"""
