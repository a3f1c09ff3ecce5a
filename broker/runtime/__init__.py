"""The process: its event loop, logs, clocks, signals to systemd, and memory that is given back.

`event_loop` is asyncio's with the reads of a turn gathered; `client_transport` is what a client has
there; `loop_latency` measures its turns, and `durations` counts how long something took. `logs`,
`log_formats`, `log_bounds` and `colours` write the log. `clocks` has the clock that does not jump.
`notify` and `pid_file` tell the system what runs; `passed_sockets` come from systemd; `stopping`
ends it; `trimming` gives memory back.
"""
