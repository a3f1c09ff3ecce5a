"""The past, from the journal: replays, look-ups, bulk reads, and catch-up of slow subscribers.

    requests: what a $SEQ. subject asks for --> replays --> cursor: a place in the journal
    scheduler: whose turn it is --> queues --> stepper: one step of a cursor --> fetcher: reads

`latest`, `last_value`, `lookup` and `bulk` answer LAST, one LAST, GET and READ. `open_replays` and
`memory` bound what answers hold; `faults` logs each fault of the disk once.
"""
