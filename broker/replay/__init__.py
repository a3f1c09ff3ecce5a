"""The past, from the journal: replays, look-ups, bulk reads, and catch-up of slow subscribers.

    requests: what a $SEQ. subject asks for --> replays --> cursor: a place in the journal
    scheduler: whose turn it is --> queues --> stepper: one step of a cursor, reads in threads

`latest`, `last_value`, `lookup` and `bulk` answer LAST, one LAST, GET and READ. `replays` counts
the open ones, and `memory` what their answers hold.
"""
